#include "argosy/metrics/over_workers.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <cmath>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"

namespace argosy::metrics {

namespace {

at::Tensor reduced(const at::Tensor& values, ReduceOp op, GroupRef group) {
  const at::Tensor result = values.detach().contiguous().clone();
  all_reduce(result, op, group);
  return result;
}

double mean_of(double part, double total, GroupRef group) {
  const at::Tensor sums =
      reduced(at::tensor({part, total}, at::kDouble), ReduceOp::SUM, group);
  const double all = sums[1].item<double>();
  return all == 0 ? 0 : sums[0].item<double>() / all;
}

} // namespace

at::Tensor sum(const at::Tensor& values, GroupRef group) {
  return reduced(values, ReduceOp::SUM, group);
}

at::Tensor max(const at::Tensor& values, GroupRef group) {
  return reduced(values, ReduceOp::MAX, group);
}

at::Tensor min(const at::Tensor& values, GroupRef group) {
  return reduced(values, ReduceOp::MIN, group);
}

double auc(
    const at::Tensor& positive, const at::Tensor& negative, GroupRef group) {
  ARGOSY_CHECK(
      positive.numel() == negative.numel(),
      "[metrics.auc] {} buckets of positive samples and {} of negative ones, "
      "expected as many",
      positive.numel(),
      negative.numel());
  const at::Tensor clicks = sum(positive.reshape({-1}).to(at::kDouble), group);
  const at::Tensor others = sum(negative.reshape({-1}).to(at::kDouble), group);
  // Of each negative sample, the positive ones of higher buckets are in order,
  // and half of those of its own.
  const at::Tensor above = clicks.sum() - clicks.cumsum(0) + clicks / 2;
  const double pairs = (clicks.sum() * others.sum()).item<double>();
  return pairs == 0 ? 0.5 : (above * others).sum().item<double>() / pairs;
}

double mae(double absolute_errors, double total, GroupRef group) {
  return mean_of(absolute_errors, total, group);
}

double mse(double squared_errors, double total, GroupRef group) {
  return mean_of(squared_errors, total, group);
}

double rmse(double squared_errors, double total, GroupRef group) {
  return std::sqrt(mse(squared_errors, total, group));
}

double acc(double correct, double total, GroupRef group) {
  return mean_of(correct, total, group);
}

} // namespace argosy::metrics
