#include "argosy/fleet/hybrid_utils.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <map>

#include "argosy/comm/coalesce.h"
#include "argosy/common/error.h"
#include "argosy/data_parallel/same_modules.h"
#include "argosy/data_parallel/sparse_average.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/optim/gradients.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::fleet::utils {

namespace {

const HybridMesh& topology(const HybridMeshPtr& given, const char* what) {
  const HybridMeshPtr current = given ? given : current_hybrid_mesh();
  ARGOSY_CHECK(
      current,
      "[fleet.utils.{}] call fleet::init() first, or give a mesh",
      what);
  return *current; // kept alive by the world
}

bool has_sparse_grad(const at::Tensor& param) {
  return param.grad().defined() && param.grad().is_sparse();
}

// Dense ones, grouped by dtype: a coalesced call takes tensors of one dtype.
std::map<c10::ScalarType, Tensors> gradients_of(const Tensors& params) {
  std::map<c10::ScalarType, Tensors> grads;
  for (const at::Tensor& param : params) {
    const at::Tensor& grad = param.grad();
    if (grad.defined() && !grad.is_sparse()) {
      grads[grad.scalar_type()].push_back(grad);
    }
  }
  return grads;
}

// Rows of all ranks; `factor` times their average.
void reduce_sparse(
    const at::Tensor& param, const GroupPtr& given, double factor) {
  const GroupPtr group = given ? given : get_group(0);
  ARGOSY_CHECK(
      param.grad().sparse_dim() == 1,
      "[fleet.utils.fused_allreduce_gradients] a gradient that is sparse in {} "
      "dims, expected in its rows, as that of an embedding",
      param.grad().sparse_dim());
  at::Tensor& grad = param.mutable_grad();
  grad = data_parallel::average_sparse(grad, param, group);
  if (factor != 1) {
    grad = grad * factor;
  }
}

// Splits tensors into lists of at most `bytes`; a larger tensor gets a list of
// its own.
std::vector<Tensors> buckets_of(const Tensors& tensors, std::size_t bytes) {
  std::vector<Tensors> buckets;
  std::size_t filled = 0;
  for (const at::Tensor& tensor : tensors) {
    if (buckets.empty() || filled + tensor.nbytes() > bytes) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(tensor);
    filled += tensor.nbytes();
  }
  return buckets;
}

// Skips parameters that are split over the axis, and those that are deferred:
// who makes them shares them.
void share_over(
    const char* axis,
    torch::nn::Module& model,
    const HybridMeshPtr& hcg,
    const char* what) {
  const GroupPtr group = topology(hcg, what).group_over({axis});
  // Only tensor parallelism splits single parameters.
  const bool splits = axis == std::string_view("model");
  if (group->nranks() == 1) {
    return;
  }
  data_parallel::NamedTensors shared;
  for (const auto& named :
       data_parallel::distinct(model.named_parameters(true))) {
    if (!is_deferred(named.second) &&
        (!splits || !marks_of(named.second).is_distributed)) {
      shared.push_back(named);
    }
  }
  // Buffers carry no marks: all ranks hold them whole.
  const auto buffers = data_parallel::distinct(model.named_buffers(true));
  shared.insert(shared.end(), buffers.begin(), buffers.end());
  // Different modules would otherwise fail or hang inside the broadcast.
  data_parallel::check_same(shared, group);
  data_parallel::share_values(shared, group->ranks().front(), group);
}

} // namespace

void fused_allreduce_gradients(
    const Tensors& params, const HybridMeshPtr& hcg) {
  fused_allreduce_gradients_with_group(
      params,
      topology(hcg, "fused_allreduce_gradients").group_over({"data", "sep"}));
}

void fused_allreduce_gradients_with_group(
    const Tensors& params,
    const GroupPtr& group,
    std::size_t bucket_size,
    std::optional<double> scale) {
  // With a scale the caller says how to average.
  const ReduceOp op = scale ? ReduceOp::SUM : ReduceOp::AVG;
  for (const auto& [type, grads] : gradients_of(params)) {
    for (const Tensors& bucket : buckets_of(grads, bucket_size)) {
      all_reduce_coalesced(bucket, op, group);
    }
  }
  const at::NoGradGuard no_grad;
  const int num_ranks = (group ? group : get_group(0))->nranks();
  Tensors dense;
  for (const at::Tensor& param : params) {
    if (has_sparse_grad(param)) {
      reduce_sparse(param, group, scale ? *scale * num_ranks : 1);
    } else {
      dense.push_back(param);
    }
  }
  if (scale) {
    optim::scale_grads(dense, *scale);
  }
}

void broadcast_mp_parameters(
    torch::nn::Module& model, const HybridMeshPtr& hcg) {
  share_over("model", model, hcg, "broadcast_mp_parameters");
}

void broadcast_dp_parameters(
    torch::nn::Module& model, const HybridMeshPtr& hcg) {
  share_over("data", model, hcg, "broadcast_dp_parameters");
}

void broadcast_sharding_parameters(
    torch::nn::Module& model, const HybridMeshPtr& hcg) {
  share_over("sharding", model, hcg, "broadcast_sharding_parameters");
}

void broadcast_sep_parameters(
    torch::nn::Module& model, const HybridMeshPtr& hcg) {
  share_over("sep", model, hcg, "broadcast_sep_parameters");
}

// Broadcasts into clones: the caller's tensors may be views of a data set.
void detail::share_inputs(
    const std::vector<at::Tensor*>& inputs, const HybridMeshPtr& hcg) {
  const GroupPtr group =
      topology(hcg, "broadcast_input_data").group_over({"model"});
  if (group->nranks() == 1) {
    return;
  }
  data_parallel::NamedTensors shared;
  for (at::Tensor* input : inputs) {
    if (input->defined()) {
      *input = input->detach().clone(at::MemoryFormat::Contiguous);
      shared.emplace_back(str("input ", shared.size()), *input);
    }
  }
  data_parallel::check_same(shared, group, "inputs");
  data_parallel::share_values(shared, group->ranks().front(), group);
}

} // namespace argosy::fleet::utils
