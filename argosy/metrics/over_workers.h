#pragma once

#include <memory>

namespace at {
class Tensor;
}
namespace argosy {
class Group;
}

// The metrics of fleet.metrics: what each worker has counted, put together.
// Collectives; a null group is that of all ranks. Arguments do not change.
namespace argosy::metrics {

using GroupRef = const std::shared_ptr<Group>&;

// Elementwise.
at::Tensor sum(const at::Tensor& values, GroupRef group = nullptr);
at::Tensor max(const at::Tensor& values, GroupRef group = nullptr);
at::Tensor min(const at::Tensor& values, GroupRef group = nullptr);

// Of the numbers of positive and negative samples by bucket of predictions, in
// ascending order; 0.5 if there is only one kind.
double auc(
    const at::Tensor& positive,
    const at::Tensor& negative,
    GroupRef group = nullptr);

// Sums of absolute or squared errors, or the number of right answers, of
// `total` samples of this worker. 0 if there are none anywhere.
double mae(double absolute_errors, double total, GroupRef group = nullptr);
double mse(double squared_errors, double total, GroupRef group = nullptr);
double rmse(double squared_errors, double total, GroupRef group = nullptr);
double acc(double correct, double total, GroupRef group = nullptr);

} // namespace argosy::metrics
