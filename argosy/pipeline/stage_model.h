#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/pipeline/schedule.h"

namespace torch::nn {
class Module;
}

namespace argosy::pipeline {

// The loss of what the last layer returns, with the labels of the microbatch.
using LossFn =
    std::function<at::Tensor(const Tensors& outputs, const Tensors& labels)>;

// A parameter that several stages hold.
struct SharedWeight {
  std::string name; // the same on all of them
  at::Tensor parameter;
  std::vector<int> stages; // ascending
};

// What one stage of a pipeline has of a model: its parts, as chunks.
class StageModel {
 public:
  virtual ~StageModel() = default;
  StageModel(const StageModel&) = delete;
  StageModel& operator=(const StageModel&) = delete;

  int stages() const { return group_->nranks(); }
  int stage() const { return group_->rank(); }
  int chunks() const { return chunks_; }
  PartOrder order() const { return order_; }
  const GroupPtr& group() const { return group_; } // of the stages
  Schedule layout() const;                         // where parts are; no steps

  virtual Tensors forward(int chunk, const Tensors& inputs) = 0;

  // In the same order on all stages.
  const std::vector<SharedWeight>& shared_weights() const { return shared_; }

  // Has the parameters of the chunks.
  virtual torch::nn::Module& module() = 0;

 protected:
  // A null group is the pipe axis of the current HybridCommunicateGroup, or all
  // ranks when there is none. Throws InvalidArgument for less than one chunk.
  StageModel(const GroupPtr& group, int chunks, PartOrder order);

  // Gives stages the same values of weights that they share. All of them call
  // it.
  void share(std::vector<SharedWeight> weights);

 private:
  const GroupPtr group_;
  const int chunks_;
  const PartOrder order_;
  std::vector<SharedWeight> shared_;
};

// All ranks take the numbers that the first one has: of `group`, or of all when
// it is null, so that pipelines side by side are cut alike.
void agree(std::vector<double>& numbers, const GroupPtr& group);

} // namespace argosy::pipeline
