#include "argosy/pipeline/cut/balanced_cuts.h"

#include <deque>

#include "argosy/common/error.h"

namespace argosy::pipeline {

namespace {

// Finds the cheapest positions such that no part is heavier than a limit.
class Cheapest {
 public:
  Cheapest(
      const std::vector<double>& weights,
      const std::vector<double>& costs,
      int parts)
      : costs_(costs), num_(weights.size()), parts_(parts) {
    sums_.push_back(0);
    for (const double weight : weights) {
      sums_.push_back(sums_.back() + weight);
    }
  }

  double total() const { return sums_.back(); }

  // Returns an empty list if there is no such split.
  // Dynamic programming over parts in O(parts * weights).
  std::vector<int> places(double limit) const {
    std::vector<double> least(num_ + 1, kNoCut);
    least[0] = 0;
    std::vector<std::vector<int>> before;
    for (int part = 0; part < parts_; ++part) {
      before.emplace_back(num_ + 1, -1);
      least = extend(least, limit, before.back());
    }
    if (least[num_] == kNoCut) {
      return {};
    }
    std::vector<int> places;
    int end = static_cast<int>(num_);
    for (auto row = before.rbegin(); row != before.rend(); ++row) {
      end = (*row)[static_cast<std::size_t>(end)];
      places.insert(places.begin(), end);
    }
    return places; // starts with 0, the begin of the first part
  }

 private:
  // Adds one part: for each end, the least cost and where the part begins. As
  // the end advances, the window of begins within the limit slides along; a
  // monotonic queue holds the begins that can still become the cheapest.
  std::vector<double> extend(
      const std::vector<double>& least,
      double limit,
      std::vector<int>& before) const {
    std::vector<double> extended(num_ + 1, kNoCut);
    std::deque<std::size_t> begins;
    for (std::size_t end = 1; end <= num_; ++end) {
      while (!begins.empty() && least[begins.back()] > least[end - 1]) {
        begins.pop_back();
      }
      begins.push_back(end - 1);
      while (!begins.empty() && sums_[end] - sums_[begins.front()] > limit) {
        begins.pop_front();
      }
      if (!begins.empty() && least[begins.front()] < kNoCut) {
        extended[end] = least[begins.front()] + (end == num_ ? 0 : costs_[end]);
        before[end] = static_cast<int>(begins.front());
      }
    }
    return extended;
  }

  const std::vector<double>& costs_;
  const std::size_t num_;
  const int parts_;
  std::vector<double> sums_; // prefix sums of the weights
};

} // namespace

std::vector<int> balanced_cuts(
    const std::vector<double>& weights,
    const std::vector<double>& costs,
    int parts) {
  // Bisects the weight of the largest part. `enough` always admits a split; 40
  // halvings bring it to the least that does, within 1e-12 of the total.
  const Cheapest cheapest(weights, costs, parts);
  double too_little = 0;
  double enough = cheapest.total();
  ARGOSY_CHECK(
      !cheapest.places(enough).empty(),
      "[pipeline.cut] too few positions to cut for {} parts",
      parts);
  for (int i = 0; i < 40; ++i) {
    const double limit = (too_little + enough) / 2;
    (cheapest.places(limit).empty() ? too_little : enough) = limit;
  }
  // The slack lets cuts move to positions where fewer bytes cross.
  std::vector<int> places = cheapest.places(1.05 * enough);
  places.erase(places.begin());
  return places;
}

} // namespace argosy::pipeline
