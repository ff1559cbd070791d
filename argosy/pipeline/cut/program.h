#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "argosy/trace/program.h"

namespace torch::nn {
class Module;
}

namespace argosy::pipeline {

using trace::Metas;
using trace::metas_of;
using trace::Program;
using trace::TensorMeta;
using Tensors = std::vector<at::Tensor>;
using Forward = std::function<Tensors(const Tensors&)>;

// Runs `forward` once, with gradients on, and records its ops. Sets back what
// it changes: buffers, inputs, random numbers. States that have no values (on
// the meta device, as keep_only() leaves them, or made under DeferredInit) are
// zeros meanwhile, which take no memory. The program serves the training mode
// that the module has now.
//
// Throws InvalidArgument for what trace::Recorder refuses, and when `forward`
// communicates.
Program record(
    torch::nn::Module& module, const Forward& forward, const Tensors& examples);

} // namespace argosy::pipeline
