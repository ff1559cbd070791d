#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "argosy/comm/ops.h"
#include "argosy/mesh/hybrid_group.h"
#include "argosy/training/nested_tensors.h"

namespace torch::nn {
class Module;
}

// For loops of one's own, without distributed_model(). All ranks of the groups
// call them alike. A null HybridCommunicateGroup is the one that fleet::init()
// made.
namespace argosy::fleet::utils {

using HybridGroupPtr = std::shared_ptr<const HybridCommunicateGroup>;

// Gradients become the averages over the ranks with data of their own; a part
// of a sequence counts as data. Parameters without gradient, which are the same
// on all ranks, are skipped.
void fused_allreduce_gradients(
    const Tensors& params, const HybridGroupPtr& hcg = nullptr);

// Over the ranks of a group (null: all). With `scale`, gradients become their
// sums times it. So many bytes of one type are reduced together.
void fused_allreduce_gradients_with_group(
    const Tensors& params,
    const GroupPtr& group = nullptr,
    std::size_t bucket_size = std::size_t{128} << 20,
    std::optional<double> scale = std::nullopt);

// Parameters and buffers become those of the first rank on an axis. Over mp
// without what is cut over its ranks. Throw InvalidArgument, on all ranks, when
// modules differ.
void broadcast_mp_parameters(
    torch::nn::Module& model, const HybridGroupPtr& hcg = nullptr);
void broadcast_dp_parameters(
    torch::nn::Module& model, const HybridGroupPtr& hcg = nullptr);
void broadcast_sharding_parameters(
    torch::nn::Module& model, const HybridGroupPtr& hcg = nullptr);
void broadcast_sep_parameters(
    torch::nn::Module& model, const HybridGroupPtr& hcg = nullptr);

namespace detail {

void share_inputs(
    const std::vector<at::Tensor*>& inputs, const HybridGroupPtr& hcg);

} // namespace detail

// Tensors in the inputs, in lists, maps and tuples too, are replaced by those
// of the first rank with parts of the same layers (mp). Throws InvalidArgument,
// on all ranks, when they differ in number, shape or type.
template <typename... Inputs>
void broadcast_input_data(const HybridGroupPtr& hcg, Inputs&... inputs) {
  std::vector<at::Tensor*> tensors;
  (training::for_each_tensor(
       inputs, [&](at::Tensor& each) { tensors.push_back(&each); }),
   ...);
  detail::share_inputs(tensors, hcg);
}

} // namespace argosy::fleet::utils
