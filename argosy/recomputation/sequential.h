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

// Runs the modules of a Sequential in `segments` runs of equal length (the
// first ones longer by one), each but the last under recompute(): backward of
// the last comes at once. All modules must take and return one tensor.
at::Tensor recompute_sequential(
    int segments,
    torch::nn::SequentialImpl& modules,
    const at::Tensor& input,
    const RecomputeOptions& options = {});

// Makes children of the model's Sequentials run under recompute() from now on,
// in a model that is otherwise unchanged: those whose name in named_modules()
// matches the whole regular expression, or every n-th child of each Sequential,
// beginning with the first. Names of parameters, training mode and saved files
// stay as they are. Of such a Sequential, clone() throws, and at<Type>(i) of
// such a child. Returns the names.
//
// Only children of Sequentials that take and return one tensor: forward() of a
// LibTorch module is no virtual function, and what a model calls by itself (a
// member, an entry of a ModuleList) cannot be reached from outside. Call
// recompute() there. Throws InvalidArgument when a name that matches is none of
// those and has none of them within, or when nothing matches.
std::vector<std::string> recompute_modules(
    torch::nn::Module& model,
    const std::string& pattern,
    const RecomputeOptions& options = {});
std::vector<std::string> recompute_every(
    torch::nn::Module& model, int n, const RecomputeOptions& options = {});

} // namespace argosy
