#include "argosy/training/gradient_schedule.h"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::training {

GradientSchedule::GradientSchedule(
    std::vector<std::vector<std::size_t>> buckets)
    : buckets_(std::move(buckets)), order_(buckets_.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (const std::size_t parameter : buckets_[bucket]) {
      bucket_of_.resize(std::max(bucket_of_.size(), parameter + 1), kNone);
      ARGOSY_CHECK(
          bucket_of_[parameter] == kNone,
          "[training.gradient_schedule] parameter {} is in two buckets",
          parameter);
      bucket_of_[parameter] = bucket;
    }
  }
  begin();
}

// Plays the arrivals through a copy and notes when each bucket becomes full. A
// bucket is as late as its last gradient, so this order lets the fewest full
// buckets wait for one that is not.
GradientSchedule GradientSchedule::ordered_by(
    const std::vector<std::size_t>& arrivals) const {
  GradientSchedule result(buckets_);
  result.order_.clear();
  for (const std::size_t parameter : arrivals) {
    if (bucket_of(parameter) == kNone) {
      continue;
    }
    if (const auto full = result.arrive(parameter)) {
      result.order_.push_back(*full);
    }
  }
  ARGOSY_CHECK(
      result.order_.size() == buckets_.size(),
      "[training.gradient_schedule] the order of arrivals leaves out "
      "parameters, expected all of them");
  result.begin();
  return result;
}

void GradientSchedule::begin() {
  pending_.clear();
  for (const auto& bucket : buckets_) {
    pending_.push_back(bucket.size());
  }
  has_arrived_.assign(bucket_of_.size(), false);
  arrivals_.clear();
  num_launched_ = 0;
}

std::optional<std::size_t> GradientSchedule::arrive(std::size_t parameter) {
  ARGOSY_ASSERT(!has_arrived_.at(parameter));
  has_arrived_[parameter] = true;
  arrivals_.push_back(parameter);
  const std::size_t bucket = bucket_of_[parameter];
  return --pending_[bucket] == 0 ? std::optional(bucket) : std::nullopt;
}

bool GradientSchedule::has_arrived(std::size_t parameter) const {
  return has_arrived_[parameter];
}

// Never skips a bucket that is not full: another rank may fill the buckets in
// another order, and collectives of a group match by their order.
std::optional<std::size_t> GradientSchedule::next() {
  if (num_launched_ == order_.size() || !is_full(order_[num_launched_])) {
    return std::nullopt;
  }
  return order_[num_launched_++];
}

std::size_t GradientSchedule::bucket_of(std::size_t parameter) const {
  return parameter < bucket_of_.size() ? bucket_of_[parameter] : kNone;
}

std::vector<std::size_t> GradientSchedule::missing() const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < bucket_of_.size(); ++i) {
    if (bucket_of_[i] != kNone && !has_arrived_[i]) {
      result.push_back(i);
    }
  }
  return result;
}

std::ostream& operator<<(std::ostream& out, const GradientSchedule& schedule) {
  for (std::size_t i = 0; i < schedule.order_.size(); ++i) {
    const std::size_t bucket = schedule.order_[i];
    const std::size_t size = schedule.buckets_[bucket].size();
    out << (i == 0 ? "" : "; ") << "bucket " << bucket << ": ";
    if (i < schedule.num_launched_) {
      out << "launched";
    } else {
      out << size - schedule.pending_[bucket] << " of " << size << " gradients";
    }
  }
  return out;
}

std::vector<std::size_t> expected_order(std::size_t num_parameters) {
  std::vector<std::size_t> order(num_parameters);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

} // namespace argosy::training
