#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/parallel/pipeline/schedule.h"

namespace torch::nn {
class Module;
}

namespace argosy::pipeline {

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

  virtual int stages() const = 0;
  virtual int stage() const = 0;
  virtual int chunks() const = 0;
  virtual PartOrder order() const = 0;
  virtual const GroupPtr& group() const = 0; // of the stages

  virtual Tensors forward(int chunk, const Tensors& inputs) = 0;

  // In the same order on all stages.
  virtual const std::vector<SharedWeight>& shared_weights() const = 0;

  // Has the parameters of the chunks.
  virtual torch::nn::Module& module() = 0;
};

} // namespace argosy::pipeline
