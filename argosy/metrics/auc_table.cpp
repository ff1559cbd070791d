#include "argosy/metrics/auc_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "argosy/common/error.h"

namespace argosy::metrics {

namespace {

enum Sum { kPredictions, kAbsoluteErrors, kSquaredErrors, kNumSums };

void check_samples(
    std::span<const float> predictions, std::span<const float> labels) {
  ARGOSY_CHECK(
      predictions.size() == labels.size(),
      "[metrics.auc] {} predictions and {} labels, expected as many",
      predictions.size(),
      labels.size());
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    ARGOSY_CHECK(
        predictions[i] >= 0 && predictions[i] <= 1,
        "[metrics.auc] prediction {} is {}, expected 0 to 1",
        i,
        predictions[i]);
    ARGOSY_CHECK(
        labels[i] == 0 || labels[i] == 1,
        "[metrics.auc] label {} is {}, expected 0 or 1",
        i,
        labels[i]);
  }
}

double ratio(double part, double whole) {
  return whole == 0 ? 0 : part / whole;
}

} // namespace

AucTable::AucTable(std::int64_t num_buckets) {
  ARGOSY_CHECK(
      num_buckets > 0 && num_buckets <= (std::int64_t{1} << 28),
      "[metrics.auc] {} buckets, expected 1 to 2^28",
      num_buckets);
  positive_.resize(static_cast<std::size_t>(num_buckets));
  negative_.resize(static_cast<std::size_t>(num_buckets));
  sums_.resize(kNumSums);
}

void AucTable::add(
    std::span<const float> predictions, std::span<const float> labels) {
  check_samples(predictions, labels);
  const auto buckets = static_cast<double>(num_buckets());
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const double prediction = predictions[i];
    const double error = std::abs(prediction - labels[i]);
    const auto bucket = std::min(
        static_cast<std::size_t>(prediction * buckets), positive_.size() - 1);
    ++(labels[i] == 1 ? positive_ : negative_)[bucket];
    sums_[kPredictions] += prediction;
    sums_[kAbsoluteErrors] += error;
    sums_[kSquaredErrors] += error * error;
  }
}

void AucTable::clear() {
  std::fill(positive_.begin(), positive_.end(), 0);
  std::fill(negative_.begin(), negative_.end(), 0);
  std::fill(sums_.begin(), sums_.end(), 0);
}

// Counts pairs of a positive and a negative sample: those in order, and half of
// those within a bucket.
double AucTable::auc() const {
  double above = 0; // positive samples of higher buckets
  double negatives = 0;
  double pairs = 0;
  for (std::size_t i = positive_.size(); i-- > 0;) {
    const auto positive = static_cast<double>(positive_[i]);
    const auto negative = static_cast<double>(negative_[i]);
    pairs += negative * (above + positive / 2);
    above += positive;
    negatives += negative;
  }
  return above == 0 || negatives == 0 ? 0.5 : pairs / (above * negatives);
}

double AucTable::bucket_error() const {
  constexpr double kWidest = 0.01;
  constexpr double kKnownTo = 0.05;
  double begin = -1; // where the buckets that are put together begin
  double shows = 0;
  double clicks = 0;
  double expected = 0;
  double error = 0;
  double counted = 0;
  for (std::size_t i = 0; i < positive_.size(); ++i) {
    const double rate =
        static_cast<double>(i) / static_cast<double>(positive_.size());
    if (std::abs(rate - begin) > kWidest) {
      begin = rate;
      shows = clicks = expected = 0;
    }
    const auto here = static_cast<double>(positive_[i] + negative_[i]);
    shows += here;
    clicks += static_cast<double>(positive_[i]);
    expected += rate * here;
    const double mean = ratio(expected, shows);
    if (mean > 0 && std::sqrt((1 - mean) / (mean * shows)) < kKnownTo) {
      error += std::abs(clicks / shows / mean - 1) * shows;
      counted += shows;
      begin = -1;
    }
  }
  return ratio(error, counted);
}

AucResult AucTable::result() const {
  AucResult result;
  const std::int64_t positive =
      std::accumulate(positive_.begin(), positive_.end(), std::int64_t{0});
  result.count = std::accumulate(negative_.begin(), negative_.end(), positive);
  const auto count = static_cast<double>(result.count);
  result.auc = auc();
  result.bucket_error = bucket_error();
  result.mae = ratio(sums_[kAbsoluteErrors], count);
  result.rmse = std::sqrt(ratio(sums_[kSquaredErrors], count));
  result.actual_ctr = ratio(static_cast<double>(positive), count);
  result.predicted_ctr = ratio(sums_[kPredictions], count);
  result.copc = ratio(result.actual_ctr, result.predicted_ctr);
  return result;
}

} // namespace argosy::metrics
