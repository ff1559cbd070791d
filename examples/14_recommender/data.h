#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

// Samples of a recommender: whether somebody clicked, and what is known.
struct Batch {
  torch::Tensor labels;     // [n], 0 or 1
  torch::Tensor numbers;    // [n, numbers]
  torch::Tensor categories; // [n, fields]; an id says field and value

  std::int64_t size() const { return labels.size(0); }

  Batch narrow(std::int64_t first, std::int64_t count) const {
    return {
        labels.narrow(0, first, count),
        numbers.narrow(0, first, count),
        categories.narrow(0, first, count)};
  }
};

// What a worker trains on, and what the result is compared with.
struct Data {
  Batch train;
  Batch test;
  torch::Tensor reference; // other scores of the test's samples
  std::string reference_name;

  int numbers() const { return static_cast<int>(test.numbers.size(1)); }
  int fields() const { return static_cast<int>(test.categories.size(1)); }
};

// The id of a value of a field.
inline std::int64_t id_of(int field, std::uint64_t value) {
  return static_cast<std::int64_t>(
      (static_cast<std::uint64_t>(field) << 32) | value);
}

// The probability that a positive sample has the higher score.
inline double auc(const torch::Tensor& scores, const torch::Tensor& labels) {
  const auto order = scores.argsort();
  const auto ranks = torch::arange(1, scores.size(0) + 1, torch::kDouble);
  const auto sorted = labels.index_select(0, order).to(torch::kDouble);
  const double positives = sorted.sum().item<double>();
  const double negatives = static_cast<double>(scores.size(0)) - positives;
  return ((sorted * ranks).sum().item<double>() -
          positives * (positives + 1) / 2) /
      (positives * negatives);
}
