#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/pipeline/messages.h"
#include "argosy/pipeline/tensor_meta.h"

namespace argosy::pipeline {

// What all stages are told of a batch by the first.
struct BatchShapes {
  // All microbatches have these shapes; else every message tells its own.
  bool uniform = false;
  std::int64_t fingerprint = 0;
};

// Brings tensors from stage to stage while a stage computes: sends return at
// once, and the next message from each stage is received ahead. Shapes are told
// once for every part and every shape of microbatches.
class Transport {
 public:
  explicit Transport(GroupPtr group) : group_(std::move(group)) {}

  // A batch by a schedule, which must live until finish(). `shapes` are those
  // of the first stage; others get them from it.
  void begin(const Schedule& schedule, BatchShapes shapes);

  void send(const Message& message, const Tensors& tensors);
  // Waits for it. Activations that need a gradient require grad.
  Tensors receive(const Message& message);

  // The batch is over: waits until all has gone out.
  void finish();
  // It ended with an error.
  void drop();

  // Shapes are told anew. All stages call it.
  void forget_shapes() { metas_.clear(); }

  // Gives all stages a number that one has.
  double share(double number, int source);

 private:
  struct Incoming {
    Message message;
    Tensors tensors;
    Metas metas;
    std::vector<WorkPtr> works;
  };
  // What comes from one stage.
  struct Inbox {
    int rank = 0; // global
    std::vector<Message> order;
    std::size_t next = 0; // to be awaited
    std::optional<Incoming> incoming;
    std::map<Message, Tensors> arrived;
  };

  int rank_of(int stage) const {
    return group_->ranks()[static_cast<std::size_t>(stage)];
  }
  Inbox& inbox_of(const Message& message);
  const Metas* known(const Message& message) const;
  void tell(const Message& message, const Metas& metas, int rank);
  Metas hear(Inbox& inbox);
  void post(Inbox& inbox, const Metas& metas);
  void post_ahead(Inbox& inbox);
  void await_next(Inbox& inbox);
  void keep_until_sent(const at::Tensor& tensor, int rank);

  const GroupPtr group_;

  // Of activations, by the part that gets them: for a fingerprint, and those
  // of the current batch where they differ.
  std::map<std::int64_t, std::map<int, Metas>> metas_;
  std::map<Message, Metas> own_metas_;

  // Of the current batch.
  const Schedule* schedule_ = nullptr;
  BatchShapes shapes_;
  std::map<int, Inbox> inboxes_; // by stage
  std::vector<std::pair<WorkPtr, at::Tensor>> outgoing_;
};

} // namespace argosy::pipeline
