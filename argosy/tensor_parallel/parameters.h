#pragma once

#include "argosy/comm/ops.h"

namespace torch::nn {
class Module;
}

// Between parameters that are cut, as their marks say, and whole ones.
namespace argosy::tensor_parallel {

// The whole, a plain tensor; a parameter that is not marked is returned as it
// is, detached. All ranks of the group must call it; blocks.
at::Tensor full_parameter(
    const at::Tensor& parameter, const GroupPtr& group = nullptr);

// Copies this rank's part of `whole` into the parameter. Nothing is sent.
// Throws InvalidArgument when the shape is not that of the part.
void load_parameter(
    const at::Tensor& parameter,
    const at::Tensor& whole,
    const GroupPtr& group = nullptr);

// The same for all parameters and buffers of a module, from one that has the
// same names and whole ones. Throws InvalidArgument for a name that it lacks.
void load_module(
    torch::nn::Module& module,
    const torch::nn::Module& whole,
    const GroupPtr& group = nullptr);

} // namespace argosy::tensor_parallel
