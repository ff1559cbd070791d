#pragma once

#include <string>
#include <vector>

#include "argosy/recomputation/options.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
class SequentialImpl;
} // namespace torch::nn

namespace argosy {

// Runs the modules of a Sequential in `segments` segments of equal length (the
// first ones may be longer by one), each under recompute() except the last,
// whose backward follows immediately. All modules must take and return one
// tensor.
at::Tensor recompute_sequential(
    int segments,
    torch::nn::SequentialImpl& modules,
    const at::Tensor& input,
    const RecomputeOptions& options = {});

// Makes children of the model's Sequentials run under recompute() from now on:
// those whose name in named_modules() matches the whole regular expression, or
// every n-th child of each Sequential, starting with the first. The names of
// parameters, the training mode and the format of saved files do not change.
// clone() of such a Sequential throws, and so does at<Type>(i) for such a
// child. Returns the names.
//
// This reaches only children of Sequentials that take and return one tensor,
// because forward() of a LibTorch module is not virtual: calls of a member or
// of an entry of a ModuleList cannot be intercepted. Call recompute() there.
// Throws InvalidArgument if nothing matches, or if a matching module neither is
// nor contains such a child.
std::vector<std::string> recompute_modules(
    torch::nn::Module& model,
    const std::string& pattern,
    const RecomputeOptions& options = {});
std::vector<std::string> recompute_every(
    torch::nn::Module& model, int n, const RecomputeOptions& options = {});

} // namespace argosy
