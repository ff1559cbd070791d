#pragma once

#include <cstddef>
#include <optional>

#include "argosy/comm/ops.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/training/nested_tensors.h"

namespace torch::nn {
class Module;
}

// Helpers for training loops that do not use distributed_model(). They are
// collectives: all ranks of the group call them alike, and they block. If `hcg`
// is null, they use the topology of fleet::init() and throw InvalidArgument
// when there is none.
namespace argosy::fleet::utils {

// Averages gradients over the ranks that have different data (sequence parts
// count as different data). Parameters without a gradient are skipped; they
// must be the same ones on all ranks. Throws InvalidArgument for sparse
// gradients.
void fused_allreduce_gradients(
    const Tensors& params, const HybridMeshPtr& hcg = nullptr);

// The same over `group` (null: all ranks). With `scale`, computes sum * scale
// instead of the average. Gradients of one dtype are packed into calls of at
// most `bucket_size` bytes.
void fused_allreduce_gradients_with_group(
    const Tensors& params,
    const GroupPtr& group = nullptr,
    std::size_t bucket_size = std::size_t{128} << 20,
    std::optional<double> scale = std::nullopt);

// Broadcast parameters and buffers from the first rank of an axis to its other
// ranks. broadcast_mp_parameters() skips parameters that are sharded over mp.
// Throw InvalidArgument, on all ranks, when the modules differ.
void broadcast_mp_parameters(
    torch::nn::Module& model, const HybridMeshPtr& hcg = nullptr);
void broadcast_dp_parameters(
    torch::nn::Module& model, const HybridMeshPtr& hcg = nullptr);
void broadcast_sharding_parameters(
    torch::nn::Module& model, const HybridMeshPtr& hcg = nullptr);
void broadcast_sep_parameters(
    torch::nn::Module& model, const HybridMeshPtr& hcg = nullptr);

namespace detail {

void share_inputs(
    const std::vector<at::Tensor*>& inputs, const HybridMeshPtr& hcg);

} // namespace detail

// Replaces each tensor in `inputs` (also those nested in lists, maps and
// tuples) by a new tensor with the values of the first rank of the tensor
// parallel group (mp). Throws InvalidArgument, on all ranks, when numbers,
// shapes or dtypes of the tensors differ.
template <typename... Inputs>
void broadcast_input_data(const HybridMeshPtr& hcg, Inputs&... inputs) {
  std::vector<at::Tensor*> tensors;
  (training::for_each_tensor(
       inputs, [&](at::Tensor& each) { tensors.push_back(&each); }),
   ...);
  detail::share_inputs(tensors, hcg);
}

} // namespace argosy::fleet::utils
