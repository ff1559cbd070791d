#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace argosy::metrics {

// What is known of predicted and observed clicks.
struct AucResult {
  double auc = 0.5;         // 0.5 also if there is only one kind of label
  double bucket_error = 0;  // see AucTable
  double mae = 0;           // mean of |prediction - label|
  double rmse = 0;          // root of the mean of its square
  double actual_ctr = 0;    // mean label
  double predicted_ctr = 0; // mean prediction
  double copc = 0;          // actual_ctr / predicted_ctr; 0 without predictions
  std::int64_t count = 0;   // samples
};

// The area under the ROC curve of any number of samples, in memory that does
// not grow: predictions are counted in buckets. Within a bucket they count as
// equal, so that the error is at most the share of pairs within one bucket.
//
// The bucket error says how far observed click rates are from predicted ones:
// neighbouring buckets are put together until they have so many samples that
// the rate is known to 5 %, at most over a hundredth of the range; it is the
// mean of |observed / predicted - 1| over those, weighted by their samples.
class AucTable {
 public:
  explicit AucTable(std::int64_t num_buckets = 1000000);

  // Predictions from 0 to 1, labels 0 or 1. Throws InvalidArgument for others,
  // with the index of the first, and adds nothing.
  void add(std::span<const float> predictions, std::span<const float> labels);

  AucResult result() const;
  void clear();

  std::int64_t num_buckets() const {
    return static_cast<std::int64_t>(positive_.size());
  }

  // Everything that was added, to be summed over workers: the number of
  // positive and negative samples of each bucket, and sums of predictions,
  // absolute and squared errors.
  std::span<std::int64_t> positive() { return positive_; }
  std::span<std::int64_t> negative() { return negative_; }
  std::span<double> sums() { return sums_; }

 private:
  double auc() const;
  double bucket_error() const;

  std::vector<std::int64_t> positive_;
  std::vector<std::int64_t> negative_;
  std::vector<double> sums_; // of predictions, absolute and squared errors
};

} // namespace argosy::metrics
