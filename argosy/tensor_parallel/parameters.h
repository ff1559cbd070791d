#pragma once

#include "argosy/comm/ops.h"

namespace torch::nn {
class Module;
}

// Conversions between parameters that are split over ranks (parameter_marks.h)
// and whole ones. Parameters of layers on a TensorGrid know the groups that
// they are split over; for these, `group` is ignored.
namespace argosy::tensor_parallel {

// Gathers a split parameter and returns the whole. Returns a parameter that is
// not split detached. All ranks of the group must call it alike; blocks.
at::Tensor full_parameter(
    const at::Tensor& parameter, const GroupPtr& group = nullptr);

// Copies this rank's slice of `whole` into the parameter, without
// communication. Throws InvalidArgument if the shapes do not match.
void load_parameter(
    const at::Tensor& parameter,
    const at::Tensor& whole,
    const GroupPtr& group = nullptr);

// Does so for all parameters and buffers of `module`, by name. Throws
// InvalidArgument for a name that `whole` does not have.
void load_module(
    torch::nn::Module& module,
    const torch::nn::Module& whole,
    const GroupPtr& group = nullptr);

} // namespace argosy::tensor_parallel
