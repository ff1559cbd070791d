#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "argosy/dtensor/layout/dist_attr.h"

namespace torch::nn {
class Module;
}

namespace argosy::pipeline {

// How a module of DTensors lies over the ranks of its stage.
struct Spread {
  // The ranks of this stage: a mesh without the axis of the pipeline.
  ProcessMesh mesh;
  // Where inputs and labels lie. Each rank passes its own part, as a plain
  // tensor; parts have equal shapes. A tensor without dims is replicated.
  Placements inputs;
  // Makes DTensors of the parameters and buffers; null if they are DTensors
  // already. Those of other stages are on the meta device by then, and those of
  // this stage not made yet if the module comes from DeferredInit.
  std::function<void(torch::nn::Module&)> place_states;

  // DTensors of this rank's parts, and the reverse. DTensors and parts that are
  // that already stay as they are.
  std::vector<at::Tensor> wrap(const std::vector<at::Tensor>& tensors) const;
  std::vector<at::Tensor> unwrap(const std::vector<at::Tensor>& tensors) const;
};

} // namespace argosy::pipeline
