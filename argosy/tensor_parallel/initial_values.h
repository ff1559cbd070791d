#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "argosy/comm/ops.h"

namespace torch::nn {
class Module;
}

// First values of layers that are cut: the parts of what torch::nn's layer has
// when it draws from the same generator. Not installed.
namespace argosy::tensor_parallel {

// The rank's kGlobalRng, or torch's generator where there is none. Ranks must
// draw alike.
at::Generator initial_generator();

// A matrix, and which of its dims is cut over a group; -1: none.
struct CutMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int dim = -1;
  const Group& group;
};

// Fills the whole, a block of rows after the other, and keeps this rank's part.
// `fill` draws the elements of a block in order.
at::Tensor draw_part(
    const CutMatrix& matrix, const std::function<void(at::Tensor&)>& fill);

// A linear layer of which this rank has a part.
struct CutLinear {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  int dim = 0; // of the weight [out, in] that is cut; the bias is with dim 0
};

// Registers "weight" and "bias" with the values that torch::nn::Linear draws.
void add_linear(
    torch::nn::Module& module,
    const CutLinear& linear,
    const Group& group,
    at::Tensor& weight,
    at::Tensor& bias);

// Marks what is cut, unless the group has one rank.
void mark_cut(const at::Tensor& parameter, int dim, const Group& group);

} // namespace argosy::tensor_parallel
