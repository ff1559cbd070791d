#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "argosy/comm/ops.h"

namespace argosy {

enum class ExpertActivation {
  Gelu,
  Relu,
  Silu,
  SwiGlu, // gated: silu of one product times another
  GeGlu,  // gated: gelu of one product times another
};

struct GroupedExpertsOptions {
  GroupedExpertsOptions(
      std::int64_t d_model, std::int64_t hidden, std::int64_t num_experts)
      : d_model_(d_model), hidden_(hidden), num_experts_(num_experts) {}

  TORCH_ARG(std::int64_t, d_model);
  TORCH_ARG(std::int64_t, hidden);
  TORCH_ARG(std::int64_t, num_experts); // of all ranks
  TORCH_ARG(ExpertActivation, activation) = ExpertActivation::Gelu;
  TORCH_ARG(GroupPtr, group) = nullptr; // as in MoELayerOptions
  // Splits the hidden features over this group. Null: every rank has all.
  TORCH_ARG(GroupPtr, mp_group) = nullptr;
};

// The experts of this rank, each act(x W1 + b1) W2 + b2; with a gated
// activation (act(x W1 + b1) * (x W3 + b3)) W2 + b2. One tensor holds the
// weights of all experts, and one node of the graph computes them all. Expert e
// starts with the values of two (gated: three) torch::nn::Linear, which do not
// depend on the number of ranks. Has no second derivative.
class GroupedExpertsImpl : public torch::nn::Module {
 public:
  explicit GroupedExpertsImpl(GroupedExpertsOptions its_options);

  // Takes rows [n, d_model], ordered by expert; expert e has rows[e] of them.
  at::Tensor forward(
      const at::Tensor& x, const std::vector<std::int64_t>& rows);

  const GroupedExpertsOptions options;
  at::Tensor weight1; // [local experts, d_model, part of hidden]
  at::Tensor bias1;   // [local experts, part of hidden]
  at::Tensor weight2; // [local experts, part of hidden, d_model]
  at::Tensor bias2;   // [local experts, d_model]
  at::Tensor weight3; // as weight1; undefined without a gated activation
  at::Tensor bias3;   // as bias1; undefined without a gated activation

 private:
  void draw(const Group& group);
  void describe(
      const at::Tensor& parameter,
      std::int64_t first_expert,
      int cut,
      const Group& mp) const;
};
TORCH_MODULE(GroupedExperts);

} // namespace argosy
