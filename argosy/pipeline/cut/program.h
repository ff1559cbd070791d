#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "argosy/dtensor/layout/dist_attr.h"
#include "argosy/trace/program.h"

namespace torch::nn {
class Module;
}

namespace argosy::pipeline {

using trace::Metas;
using trace::metas_of;
using trace::TensorMeta;
using Tensors = std::vector<at::Tensor>;
using Forward = std::function<Tensors(const Tensors&)>;

struct Program : trace::Program {
  std::unordered_map<int, DistAttr> layouts; // of the values that are DTensors
};

// Runs `forward` once, with gradients on, and records its ops. Sets back what
// it changes: buffers, inputs, random numbers. States that have no values (on
// the meta device, as keep_only() leaves them, or made under DeferredInit) are
// zeros meanwhile, which take no memory. The program serves the training mode
// that the module has now.
//
// What `forward` communicates within an op (on DTensors) or within a
// trace::recorded_call(), each run communicates again. So all ranks of the
// groups must record, and run, alike.
//
// Throws InvalidArgument for what trace::Recorder refuses, and when `forward`
// communicates elsewhere.
Program record(
    torch::nn::Module& module, const Forward& forward, const Tensors& examples);

} // namespace argosy::pipeline
