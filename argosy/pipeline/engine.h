#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "argosy/optim/autocast.h"
#include "argosy/pipeline/microbatches.h"
#include "argosy/pipeline/stage_model.h"
#include "argosy/pipeline/transport.h"
#include "argosy/torch_hooks/split_backward.h"

namespace argosy::pipeline {

// When a stage ran a step, in seconds since the batch began.
struct StepTime {
  Step step;
  double begin = 0;
  double end = 0;
};

// Executes schedules. One loop serves all of them: a step starts when its
// inputs have arrived, and its outputs are sent while the next step runs.
//
// All stages of the group call train() and evaluate() alike, with the same
// schedule. Both block. Not thread-safe.
class Engine {
 public:
  struct Batch {
    std::vector<Microbatch> microbatches;
    // `loss` computes the loss from the last part's outputs; `scale` maps it to
    // the tensor that backward starts from.
    std::function<at::Tensor(const Tensors& outputs, const Tensors& labels)>
        loss;
    std::function<at::Tensor(const at::Tensor& loss)> scale;
    double loss_scale = 1; // the factor that `scale` applies
    // Called after each step that has added to gradients; may be null.
    std::function<void()> after_backward;
    bool dynamic_shapes = false;
  };
  struct Result {
    // By microbatch, on the stage with the last part; empty elsewhere.
    std::vector<at::Tensor> losses;
    std::vector<Tensors> outputs; // likewise, if the batch has no backward
  };

  // Called at the beginning and at the end of each step, on the calling thread.
  using Listener = std::function<void(const Step& step, bool begins)>;

  // `model` must outlive the engine. With `autocast`, parts compute in
  // bfloat16.
  explicit Engine(
      StageModel& model,
      bool autocast = false,
      optim::AutoCastLists autocast_lists = {});

  // Runs forwards and backwards. Gradients accumulate in the parameters, one
  // microbatch after the other.
  Result train(const Schedule& schedule, const Batch& batch);
  // Runs only the forwards of the schedule, without gradients.
  Result evaluate(const Schedule& schedule, const Batch& batch);

  Transport& transport() { return transport_; }
  void set_listener(Listener listener) { listener_ = std::move(listener); }

  // Of the last batch, for measurement and traces.
  const std::vector<StepTime>& times() const { return times_; }
  std::chrono::steady_clock::time_point start() const { return start_; }

 private:
  // A microbatch in a part, between its forward and the end of its backward.
  struct PendingMicrobatch {
    Tensors inputs;    // leaves that require grad
    Tensors outputs;   // graph roots that require grad; their data is released
    Tensors gradients; // gradients of `outputs`; set on the last part only
    // Between the two halves of backward.
    std::optional<torch_hooks::SplitBackward> split;
  };
  using Key = std::pair<int, int>; // chunk, microbatch

  Result run(const Schedule& schedule, const Batch& batch, bool trains);
  void do_step(const Step& step);
  Tensors compute(const Step& step, const Tensors& needed);
  Tensors run_part(int chunk, const Tensors& inputs);
  Tensors forward(const Step& step, const Tensors& needed);
  Tensors backward(const Step& step, const Tensors& needed);
  Tensors loss_of(const Step& step, const Tensors& outputs);
  Tensors receive(const Step& step);
  void send(const Step& step, const Tensors& tensors);
  BatchShapes shapes() const;
  bool is_last(int chunk) const;

  StageModel& model_;
  const bool autocast_;
  const optim::AutoCastLists autocast_lists_;
  Transport transport_;
  Listener listener_;

  // State of the current batch.
  const Schedule* schedule_ = nullptr;
  const Batch* batch_ = nullptr;
  bool trains_ = false;
  std::map<Key, PendingMicrobatch> pending_;
  std::map<Message, Tensors> local_; // messages between two parts of this stage
  Result result_;
  std::vector<StepTime> times_;
  std::chrono::steady_clock::time_point start_;
};

} // namespace argosy::pipeline
