#include "argosy/tensor_parallel/initial_values.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

#include "argosy/comm/shards.h"
#include "argosy/common/error.h"
#include "argosy/optim/parts.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/training/held_part.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::tensor_parallel {

namespace {

// torch draws normal numbers 16 at a time. Blocks whose size is a multiple of
// 16, with a last one that is not shorter, get the same values as the whole.
constexpr std::int64_t kBlockRows = 512;

MatrixBox own_box(const CutMatrix& matrix) {
  const auto part = [&](int dim, std::int64_t size) {
    return matrix.dim == dim
        ? comm::shard_range(size, matrix.group.nranks(), matrix.group.rank())
        : comm::ShardRange{0, size};
  };
  return {part(0, matrix.rows), part(1, matrix.columns)};
}

// Copies this rank's part of a block that begins at row `first`.
void keep_own(
    const at::Tensor& out,
    const MatrixBox& box,
    const at::Tensor& block,
    std::int64_t first) {
  const std::int64_t begin = std::max(first, box.rows.begin);
  const std::int64_t end =
      std::min(first + block.size(0), box.rows.begin + box.rows.size);
  if (begin < end) {
    out.narrow(0, begin - box.rows.begin, end - begin)
        .copy_(block.narrow(0, begin - first, end - begin)
                   .narrow(1, box.columns.begin, box.columns.size));
  }
}

// The bound of torch::nn::init::kaiming_uniform_() with a = sqrt(5), to the
// last bit.
double weight_bound(std::int64_t fan_in) {
  const double gain = std::sqrt(2.0 / (1 + std::pow(std::sqrt(5.0), 2)));
  const double deviation = gain / std::sqrt(static_cast<double>(fan_in));
  return std::sqrt(3.0) * deviation;
}

// Every rank draws the whole matrix from the same generator and keeps its
// part, so that the model starts from the values that one process would draw,
// whatever the number of ranks. Time is that of the whole matrix, memory that
// of the part and a block of rows.
at::Tensor draw_box(
    std::int64_t rows,
    std::int64_t columns,
    const MatrixBox& own,
    const std::function<void(at::Tensor&)>& fill) {
  const at::NoGradGuard no_grad;
  at::Tensor out = at::empty({own.rows.size, own.columns.size});
  for (std::int64_t first = 0; first < rows;) {
    const std::int64_t left = rows - first;
    const std::int64_t num = left < 2 * kBlockRows ? left : kBlockRows;
    at::Tensor block = at::empty({num, columns});
    fill(block);
    keep_own(out, own, block, first);
    first += num;
  }
  return out;
}

} // namespace

at::Generator initial_generator() {
  const auto tracker = rng_states_tracker();
  const at::Generator* scope = RngStatesTracker::Scope::current();
  // Inside of a scope of kModelParallelRng ranks draw different numbers, and
  // would cut slices of different matrices.
  if (scope != nullptr &&
      !(tracker->has(kModelParallelRng) &&
        *scope == tracker->generator(kModelParallelRng))) {
    return *scope;
  }
  return tracker->has(kGlobalRng) ? tracker->generator(kGlobalRng)
                                  : at::detail::getDefaultCPUGenerator();
}

at::Tensor draw_part(
    const CutMatrix& matrix, const std::function<void(at::Tensor&)>& fill) {
  return draw_box(matrix.rows, matrix.columns, own_box(matrix), fill);
}

LinearValues draw_linear(
    const LinearSize& size,
    const MatrixBox& own,
    const comm::ShardRange& own_bias) {
  ARGOSY_CHECK(
      size.in_features > 0 && size.out_features > 0,
      "[tensor_parallel.linear] {} inputs and {} outputs, expected at least 1",
      size.in_features,
      size.out_features);
  const at::Generator generator = initial_generator();
  const auto uniform = [&](double bound) {
    return [&generator, bound](at::Tensor& block) {
      block.uniform_(-bound, bound, generator);
    };
  };
  LinearValues values;
  values.weight = draw_box(
      size.out_features,
      size.in_features,
      own,
      uniform(weight_bound(size.in_features)));
  if (size.bias) {
    const double bound = 1 / std::sqrt(static_cast<double>(size.in_features));
    values.bias =
        draw_box(size.out_features, 1, {own_bias, {0, 1}}, uniform(bound))
            .squeeze(1)
            .detach();
  }
  return values;
}

void add_linear(
    torch::nn::Module& module,
    const CutLinear& linear,
    const GroupPtr& group,
    at::Tensor& weight,
    at::Tensor& bias) {
  const bool cuts_bias = linear.dim == 0;
  const CutMatrix matrix{
      linear.out_features, linear.in_features, linear.dim, *group};
  const MatrixBox own = own_box(matrix);
  const LinearValues values = draw_linear(
      {linear.in_features, linear.out_features, linear.bias}, own, own.rows);
  weight = values.weight;
  mark_cut(
      weight,
      linear.dim,
      cuts_bias ? linear.out_features : linear.in_features,
      group);
  module.register_parameter("weight", weight);
  bias = values.bias;
  if (bias.defined() && cuts_bias) {
    mark_cut(bias, 0, linear.out_features, group);
  }
  module.register_parameter("bias", bias, linear.bias);
}

void mark_cut(
    const at::Tensor& parameter,
    int dim,
    std::int64_t size,
    const GroupPtr& group) {
  if (group->nranks() == 1) {
    return;
  }
  set_marks(parameter, {.is_distributed = true, .split_axis = dim});
  optim::set_part_groups(parameter, {group});
  dtensor::Shape whole = parameter.sizes().vec();
  dtensor::Box box = dtensor::whole(whole);
  whole[dim] = size;
  box.offset[dim] =
      comm::shard_range(size, group->nranks(), group->rank()).begin;
  training::set_held_box(parameter, std::move(whole), std::move(box));
}

} // namespace argosy::tensor_parallel
