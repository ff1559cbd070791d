#include "argosy/data_parallel/sync_batch_norm.h"

#include <torch/nn/modules/batchnorm.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_batch_norm_impl_index.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <mutex>

#include "argosy/comm/functional.h"
#include "argosy/comm/operation/label.h"
#include "argosy/common/error.h"
#include "argosy/data_parallel/reducer.h"
#include "argosy/torch_hooks/op_override.h"
#include "argosy/training/step_errors.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

struct Normalisation {
  at::Tensor weight; // these four may be undefined
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  double momentum;
  double eps;
};

// All dims except the channels.
std::vector<std::int64_t> other_dims(const at::Tensor& input) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t dim = 2; dim < input.dim(); ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

// Reshapes a vector by channel so that it broadcasts over the input.
at::Tensor by_channel(const at::Tensor& vector, const at::Tensor& input) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
  sizes[1] = input.size(1);
  return vector.view(sizes);
}

void keep_statistics(
    const Normalisation& norm,
    const at::Tensor& mean,
    const at::Tensor& variance,
    double count) {
  if (!norm.running_mean.defined()) {
    return;
  }
  const at::NoGradGuard no_grad;
  const auto keep = [&](at::Tensor running, const at::Tensor& now) {
    running.mul_(1 - norm.momentum).add_(now.detach(), norm.momentum);
  };
  keep(norm.running_mean, mean);
  // The running variance is the unbiased one, as in torch.
  keep(norm.running_var, variance * (count / std::max(count - 1, 1.0)));
}

// Computes mean and variance over the batches of all ranks with differentiable
// all_reduces, so that backward needs no code. The variance takes a second pass
// over the centred input: E[x^2] - E[x]^2 would cancel.
at::Tensor normalise_over_ranks(
    const at::Tensor& input, const Normalisation& norm, const GroupPtr& group) {
  ARGOSY_CHECK(
      input.dim() >= 2,
      "[data_parallel.sync_batch_norm] the input has {} dims, expected "
      "channels in dim 1",
      input.dim());
  const std::vector<std::int64_t> dims = other_dims(input);
  const auto own = static_cast<double>(input.numel()) /
      static_cast<double>(std::max<std::int64_t>(input.size(1), 1));
  static const OpLabel label("batch norm statistics");
  const LabelScope scope(label);
  // The count travels with the sums: batches may differ in size by rank.
  at::Tensor sums =
      at::cat({input.sum(dims), at::full({1}, own, input.options())});
  training::in_each_step(
      [&] { sums = functional::all_reduce(sums, ReduceOp::SUM, group); },
      data_parallel::kUnevenAdvice);
  const double count = sums.detach()[input.size(1)].item<double>();
  ARGOSY_CHECK(
      count > 1,
      "[data_parallel.sync_batch_norm] {} values per channel on all ranks "
      "together, expected more than 1",
      count);
  const at::Tensor mean = sums.narrow(0, 0, input.size(1)) / count;
  const at::Tensor centred = input - by_channel(mean, input);
  const at::Tensor variance =
      functional::all_reduce(
          (centred * centred).sum(dims), ReduceOp::SUM, group) /
      count;
  keep_statistics(norm, mean, variance, count);
  at::Tensor result =
      centred * by_channel((variance + norm.eps).rsqrt(), input);
  if (norm.weight.defined()) {
    result = result * by_channel(norm.weight, input);
  }
  return norm.bias.defined() ? result + by_channel(norm.bias, input) : result;
}

// The batch norms of one rank's world that normalise over ranks. Each is
// identified by a tensor that only it uses. The weak pointer keeps the
// TensorImpl of a destroyed module allocated, so that no other tensor gets its
// address and is taken for it.
class Converted {
 public:
  void add(const at::Tensor& mark, const GroupPtr& group) {
    const std::lock_guard lock(mutex_);
    groups_.insert_or_assign(
        mark.unsafeGetTensorImpl(),
        Entry{
            c10::weak_intrusive_ptr<at::TensorImpl>(mark.getIntrusivePtr()),
            group});
  }

  GroupPtr find(const at::Tensor& mark) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(mark.unsafeGetTensorImpl());
    if (found == groups_.end() || found->second.alive.expired()) {
      return nullptr;
    }
    return found->second.group;
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<at::TensorImpl> alive;
    GroupPtr group;
  };

  std::mutex mutex_;
  std::map<const at::TensorImpl*, Entry> groups_; // guarded by mutex_
};

std::shared_ptr<Converted> converted_of(World& world) {
  return world.attached<Converted>(
      [] { return std::make_shared<Converted>(); });
}

using torch_hooks::OptionalTensor;

at::Tensor value_or_none(const OptionalTensor& tensor) {
  return tensor.value_or(at::Tensor());
}

// Replaces aten::batch_norm for the whole process. forward() of torch's modules
// is not virtual, so the op has to find out which module has called it: by the
// same tensor that convert_one() registers. Other calls do what
// aten::batch_norm does, by the op below it, because a call of at::batch_norm
// would come back here.
at::Tensor batch_norm(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    bool training,
    double momentum,
    double eps,
    bool cudnn_enabled) {
  const auto world = training ? current_world() : nullptr;
  const at::Tensor mean = value_or_none(running_mean);
  const at::Tensor mark = mean.defined() ? mean : value_or_none(weight);
  if (world && mark.defined()) {
    if (const GroupPtr group = converted_of(*world)->find(mark)) {
      return normalise_over_ranks(
          input,
          {value_or_none(weight),
           value_or_none(bias),
           mean,
           value_or_none(running_var),
           momentum,
           eps},
          group);
    }
  }
  return std::get<0>(at::_batch_norm_impl_index(
      input,
      weight,
      bias,
      running_mean,
      running_var,
      training,
      momentum,
      eps,
      cudnn_enabled));
}

template <typename Impl>
bool convert_one(
    torch::nn::Module& module,
    const std::string& name,
    const GroupPtr& group,
    Converted& converted) {
  auto* norm = module.as<Impl>();
  if (norm == nullptr) {
    return false;
  }
  const at::Tensor mark =
      norm->running_mean.defined() ? norm->running_mean : norm->weight;
  ARGOSY_CHECK(
      mark.defined(),
      "[data_parallel.convert_sync_batchnorm] {} has neither running "
      "statistics nor weights: use SyncBatchNorm",
      name);
  converted.add(mark, group);
  return true;
}

} // namespace

SyncBatchNormImpl::SyncBatchNormImpl(
    torch::nn::BatchNormOptions its_options, GroupPtr group)
    : options(std::move(its_options)),
      group_(group ? std::move(group) : get_group(0)) {
  const std::int64_t n = options.num_features();
  if (options.affine()) {
    weight = register_parameter("weight", at::ones({n}));
    bias = register_parameter("bias", at::zeros({n}));
  }
  if (options.track_running_stats()) {
    running_mean = register_buffer("running_mean", at::zeros({n}));
    running_var = register_buffer("running_var", at::ones({n}));
  }
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  const double momentum = options.momentum().value_or(0.1);
  if (is_training() || !running_mean.defined()) {
    return normalise_over_ranks(
        input,
        {weight, bias, running_mean, running_var, momentum, options.eps()},
        group_);
  }
  return at::batch_norm(
      input,
      weight,
      bias,
      running_mean,
      running_var,
      false,
      momentum,
      options.eps(),
      false);
}

int convert_sync_batchnorm(torch::nn::Module& module, const GroupPtr& group) {
  const auto world = require_world("parallel.convert_sync_batchnorm");
  torch_hooks::install_batch_norm(&batch_norm);
  const GroupPtr members = group ? group : get_group(0);
  const auto converted = converted_of(*world);
  int count = 0;
  for (const auto& item : module.named_modules("", true)) {
    torch::nn::Module& each = *item.value();
    if (convert_one<torch::nn::BatchNorm1dImpl>(
            each, item.key(), members, *converted) ||
        convert_one<torch::nn::BatchNorm2dImpl>(
            each, item.key(), members, *converted) ||
        convert_one<torch::nn::BatchNorm3dImpl>(
            each, item.key(), members, *converted)) {
      ++count;
    }
  }
  return count;
}

} // namespace argosy
