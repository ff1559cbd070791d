#include "argosy/data/batch_plan.h"

#include <algorithm>
#include <cstddef>
#include <ostream>

#include "argosy/common/error.h"
#include "argosy/data/shuffle.h"

namespace argosy::data {

namespace {

// The range in the last, incomplete step, which has `left` samples.
RankRange last_range(
    std::int64_t left, const SamplerOptions& options, std::int64_t position) {
  const std::int64_t ranks = options.replicas();
  const std::int64_t rank = options.replica();
  if (options.pad) {
    const std::int64_t each = (left + ranks - 1) / ranks;
    return {position + rank * each, each, position + each * ranks};
  }
  const std::int64_t each = left / ranks;
  const std::int64_t more = left % ranks; // ranks that get one sample more
  // Each earlier rank among the first `more` moves this one by a sample.
  const std::int64_t before = std::min(rank, more);
  return {
      position + rank * each + before,
      each + (rank < more ? 1 : 0),
      position + left};
}

} // namespace

void check_options(std::int64_t dataset_size, const SamplerOptions& options) {
  ARGOSY_CHECK(
      dataset_size >= 0,
      "[data.sampler] dataset size {}, expected 0 or more",
      dataset_size);
  ARGOSY_CHECK(
      options.batch_size > 0,
      "[data.sampler] batch_size {}, expected 1 or more",
      options.batch_size);
  ARGOSY_CHECK(
      options.replicas() > 0,
      "[data.sampler] num_replicas {}, expected 1 or more",
      options.replicas());
  ARGOSY_CHECK(
      options.replica() >= 0 && options.replica() < options.replicas(),
      "[data.sampler] rank {}, expected 0 to {}",
      options.replica(),
      options.replicas() - 1);
}

std::optional<RankRange> rank_range_at(
    std::int64_t dataset_size,
    const SamplerOptions& options,
    std::int64_t position) {
  const std::int64_t left = dataset_size - position;
  if (left <= 0) {
    return std::nullopt;
  }
  const std::int64_t full = options.batch_size * options.replicas();
  // With padding, a step counts as complete if less than one sample per rank is
  // missing.
  const std::int64_t missing = options.pad ? options.replicas() - 1 : 0;
  if (left + missing >= full) {
    return RankRange{
        position + options.replica() * options.batch_size,
        options.batch_size,
        position + full};
  }
  if (options.drop_last) {
    return std::nullopt;
  }
  return last_range(left, options, position);
}

std::vector<std::int64_t> indices_of(
    const RankRange& range,
    const std::vector<std::int64_t>& order,
    std::int64_t dataset_size) {
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(range.count));
  for (std::int64_t i = 0; i < range.count; ++i) {
    // Wraps around: padding repeats the first samples.
    const std::int64_t place = (range.begin + i) % dataset_size;
    indices.push_back(
        order.empty() ? place : order[static_cast<std::size_t>(place)]);
  }
  return indices;
}

std::int64_t num_batches(
    std::int64_t dataset_size, const SamplerOptions& options) {
  const std::int64_t full = options.batch_size * options.replicas();
  std::int64_t steps = dataset_size / full;
  const auto last = rank_range_at(dataset_size, options, steps * full);
  return steps + (last && last->count > 0 ? 1 : 0);
}

std::vector<Batch> plan_batches(
    std::int64_t dataset_size,
    const SamplerOptions& options,
    std::int64_t epoch,
    std::int64_t position) {
  check_options(dataset_size, options);
  std::vector<std::int64_t> order;
  if (options.shuffle) {
    order = shuffled_indices(dataset_size, options.seed, epoch);
  }
  std::vector<Batch> batches;
  while (const auto range = rank_range_at(dataset_size, options, position)) {
    if (range->count > 0) {
      batches.push_back(
          {indices_of(*range, order, dataset_size), epoch, range->step_end});
    }
    position = range->step_end;
  }
  return batches;
}

std::ostream& operator<<(std::ostream& out, const Batch& batch) {
  out << "epoch " << batch.epoch << " to " << batch.step_end << ": [";
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    out << (i == 0 ? "" : " ") << batch.indices[i];
  }
  return out << "]";
}

} // namespace argosy::data
