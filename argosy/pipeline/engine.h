#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/pipeline/microbatches.h"
#include "argosy/pipeline/split_backward.h"
#include "argosy/pipeline/stage_model.h"
#include "argosy/pipeline/transport.h"

namespace argosy::pipeline {

// When a stage did a step, in seconds since its batch began.
struct StepTime {
  Step step;
  double begin = 0;
  double end = 0;
};

// Carries schedules out. One for all of them: a step is begun when what it
// needs is there, and what comes of it goes out while the next one runs.
class Engine {
 public:
  struct Batch {
    std::vector<Microbatch> microbatches;
    // Loss of the last part's outputs, and what backward starts from.
    std::function<at::Tensor(const Tensors& outputs, const Tensors& labels)>
        loss;
    std::function<at::Tensor(const at::Tensor& loss)> scale;
    double loss_scale = 1; // what `scale` multiplies by
    bool dynamic_shapes = false;
  };
  struct Result {
    // By microbatch, where the last part is; else empty.
    std::vector<at::Tensor> losses;
    std::vector<Tensors> outputs; // of a batch without backward, likewise
  };

  // Calls of the beginning and the end of each step.
  using Listener = std::function<void(const Step& step, bool begins)>;

  // With `autocast`, parts compute in bfloat16.
  explicit Engine(StageModel& model, bool autocast = false);

  // Gradients add up in the parameters, microbatch by microbatch.
  Result train(const Schedule& schedule, const Batch& batch);
  // The forwards of a schedule only.
  Result evaluate(const Schedule& schedule, const Batch& batch);

  Transport& transport() { return transport_; }
  void set_listener(Listener listener) { listener_ = std::move(listener); }

  // Of the last batch.
  const std::vector<StepTime>& times() const { return times_; }
  std::chrono::steady_clock::time_point start() const { return start_; }

 private:
  // A microbatch in a part, between forward and the end of backward.
  struct Passage {
    Tensors inputs;                     // that require grad
    Tensors outputs;                    // likewise, without their values
    Tensors gradients;                  // of those, of the last part
    std::optional<SplitBackward> split; // between its halves
  };
  using Key = std::pair<int, int>; // chunk, microbatch

  Result run(const Schedule& schedule, const Batch& batch, bool trains);
  void do_step(const Step& step);
  Tensors compute(const Step& step, const Tensors& needed);
  Tensors run_part(int chunk, const Tensors& inputs);
  Tensors forward(const Step& step, const Tensors& needed);
  Tensors backward(const Step& step, const Tensors& needed);
  Tensors loss_of(const Step& step, const Tensors& outputs);
  Tensors take(const Step& step);
  void give(const Step& step, const Tensors& tensors);
  BatchShapes shapes() const;
  bool is_last(int chunk) const;

  StageModel& model_;
  const bool autocast_;
  Transport transport_;
  Listener listener_;

  // Of the current batch.
  const Schedule* schedule_ = nullptr;
  const Batch* batch_ = nullptr;
  bool trains_ = false;
  std::map<Key, Passage> passages_;
  std::map<Message, Tensors> local_; // between two parts of this stage
  Result result_;
  std::vector<StepTime> times_;
  std::chrono::steady_clock::time_point start_;
};

} // namespace argosy::pipeline
