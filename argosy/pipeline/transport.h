#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "argosy/comm/operation/label.h"
#include "argosy/comm/ops.h"
#include "argosy/pipeline/messages.h"
#include "argosy/trace/tensor_meta.h"

namespace argosy::pipeline {

using trace::Metas;
using trace::metas_of;
using trace::TensorMeta;

// What the first stage tells all stages about a batch.
struct BatchShapes {
  // Whether all microbatches have these shapes; if not, every message carries
  // its own.
  bool uniform = false;
  std::int64_t fingerprint = 0;
};

// Transfers tensors between stages while they compute: sends return at once,
// and the next message from each stage is posted ahead. Shapes are sent once
// for every part and shape of microbatch. Not thread-safe.
class Transport {
 public:
  explicit Transport(GroupPtr group) : group_(std::move(group)) {}

  // Starts a batch. `schedule` must live until finish(). Only the first stage's
  // `shapes` count; the others receive them.
  void begin(const Schedule& schedule, BatchShapes shapes);

  void send(const Message& message, const Tensors& tensors);
  // Blocks until the message has arrived. Activations whose gradient is needed
  // require grad.
  Tensors receive(const Message& message);

  // Ends the batch: blocks until everything is sent.
  void finish();
  // Forgets the batch, also after an error, without waiting.
  void reset();

  // Forgets shapes, so that they are sent again. All stages call it.
  void forget_shapes() { metas_.clear(); }

  // Overwrites `numbers` by those of stage `source`. All stages call it, with
  // tensors of one shape and type; blocks.
  void broadcast(const at::Tensor& numbers, int source);

 private:
  struct Incoming {
    Message message;
    Tensors tensors;
    Metas metas;
    std::vector<WorkPtr> works;
  };
  // The messages from one stage.
  struct Inbox {
    int rank = 0; // global rank of the sender
    std::vector<Message> order;
    std::size_t next = 0; // index of the message to wait for next
    std::optional<Incoming> incoming;
    std::map<Message, Tensors> arrived;
  };

  int rank_of(int stage) const {
    return group_->ranks()[static_cast<std::size_t>(stage)];
  }
  Inbox& inbox_of(const Message& message);
  const Metas* known(const Message& message) const;
  void send_metas(const Message& message, const Metas& metas, int rank);
  Metas receive_metas(Inbox& inbox);
  void post_receive(Inbox& inbox, const Metas& metas);
  void post_ahead(Inbox& inbox);
  void await_next(Inbox& inbox);
  void keep_until_sent(const at::Tensor& tensor, int rank);
  // "pipeline, activations of microbatch 3 for part 1"
  OpLabel label_of(const Message& message);

  const GroupPtr group_;

  // Metas of activations, by the receiving part: per fingerprint for uniform
  // batches, and per message for the current batch otherwise.
  std::map<std::int64_t, std::map<int, Metas>> metas_;
  std::map<Message, Metas> own_metas_;
  std::map<Message, OpLabel> labels_;

  // State of the current batch.
  const Schedule* schedule_ = nullptr;
  BatchShapes shapes_;
  std::map<int, Inbox> inboxes_; // by sending stage
  std::vector<std::pair<WorkPtr, at::Tensor>> outgoing_;
};

} // namespace argosy::pipeline
