#include "argosy/ps/table/reservoir.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/ps/table/trainers.h"

namespace argosy::ps {

DenseReservoir::DenseReservoir(int num_trainers, std::size_t size)
    : num_trainers_(num_trainers), sum_(size) {
  check_num_trainers("sync", num_trainers);
}

void DenseReservoir::add(std::span<const float> gradient) {
  if (next_ == 0) {
    std::copy(gradient.begin(), gradient.end(), sum_.begin());
  } else {
    std::transform(
        sum_.begin(),
        sum_.end(),
        gradient.begin(),
        sum_.begin(),
        std::plus<>());
  }
  ++next_;
}

void DenseReservoir::push(int trainer, std::span<const float> gradient) {
  check_trainer("sync", trainer, static_cast<std::size_t>(num_trainers_));
  ARGOSY_CHECK(
      gradient.size() == sum_.size(),
      "[ps.sync] {} floats of trainer {}, expected {}",
      gradient.size(),
      trainer,
      sum_.size());
  ARGOSY_CHECK(
      trainer >= next_ && !early_.contains(trainer),
      "[ps.sync] trainer {} pushes twice in a step",
      trainer);
  if (trainer != next_) {
    early_.emplace(
        trainer, std::vector<float>(gradient.begin(), gradient.end()));
    return;
  }
  add(gradient);
  while (!early_.empty() && early_.begin()->first == next_) {
    add(early_.begin()->second);
    early_.erase(early_.begin());
  }
}

std::vector<float> DenseReservoir::pour() {
  if (!complete()) {
    std::vector<int> missing;
    for (int trainer = next_; trainer < num_trainers_; ++trainer) {
      if (!early_.contains(trainer)) {
        missing.push_back(trainer);
      }
    }
    throw InvalidArgument(
        str("[ps.sync] no gradient of trainers ", ranges_text(missing)));
  }
  std::vector<float> mean(sum_.size());
  const auto count = static_cast<float>(num_trainers_);
  std::transform(sum_.begin(), sum_.end(), mean.begin(), [&](float sum) {
    return sum / count;
  });
  clear();
  return mean;
}

void DenseReservoir::clear() {
  next_ = 0;
  early_.clear();
}

SparseReservoir::SparseReservoir(int num_trainers, int push_dim)
    : push_dim_(push_dim),
      by_trainer_(static_cast<std::size_t>(std::max(num_trainers, 0))) {
  ARGOSY_CHECK(
      num_trainers > 0 && push_dim > 0,
      "[ps.sync] {} trainers and {} floats for each key, expected at least 1",
      num_trainers,
      push_dim);
}

void SparseReservoir::push(
    int trainer,
    std::span<const std::uint64_t> keys,
    std::span<const float> records) {
  check_trainer("sync", trainer, by_trainer_.size());
  ARGOSY_CHECK(
      records.size() == keys.size() * static_cast<std::size_t>(push_dim_),
      "[ps.sync] {} keys with {} floats of trainer {}, expected {} for each",
      keys.size(),
      records.size(),
      trainer,
      push_dim_);
  Pushed& pushed = by_trainer_[static_cast<std::size_t>(trainer)];
  pushed.keys.insert(pushed.keys.end(), keys.begin(), keys.end());
  pushed.records.insert(pushed.records.end(), records.begin(), records.end());
}

SparseReservoir::Merged SparseReservoir::pour(
    int first_gradient, bool has_slot, int trainers) {
  const auto dim = static_cast<std::size_t>(push_dim_);
  // By key, and within a key in the order of trainers and pushes.
  std::vector<std::pair<std::uint64_t, const float*>> all;
  for (const Pushed& pushed : by_trainer_) {
    for (std::size_t i = 0; i < pushed.keys.size(); ++i) {
      all.emplace_back(pushed.keys[i], &pushed.records[i * dim]);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  Merged merged;
  for (const auto& [key, record] : all) {
    if (merged.keys.empty() || merged.keys.back() != key) {
      merged.keys.push_back(key);
      merged.records.insert(merged.records.end(), record, record + dim);
      continue;
    }
    float* const sum = merged.records.data() + merged.records.size() - dim;
    std::transform(sum, sum + dim, record, sum, std::plus<>());
    if (has_slot) {
      sum[0] = record[0];
    }
  }
  for (std::size_t i = 0; i < merged.records.size(); ++i) {
    if (i % dim >= static_cast<std::size_t>(first_gradient)) {
      merged.records[i] /= static_cast<float>(trainers);
    }
  }
  clear();
  return merged;
}

void SparseReservoir::clear() {
  for (Pushed& pushed : by_trainer_) {
    pushed = {};
  }
}

} // namespace argosy::ps
