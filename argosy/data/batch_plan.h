#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <vector>

namespace argosy::data {

struct SamplerOptions {
  std::int64_t batch_size = 1; // samples of one rank in one step
  int num_replicas = 1;
  int rank = 0;
  bool shuffle = false; // each epoch in its own order; see shuffled_indices()

  // The last step of an epoch has fewer than batch_size * num_replicas samples
  // when they do not divide. It is dropped, or dealt evenly:
  bool drop_last = false;

  // Repeats up to num_replicas - 1 samples, from the start of the epoch's
  // order, so that the last step can be dealt evenly and all ranks take as many
  // samples and steps. Without it the first ranks take one sample more, and
  // some may have one step less: then training needs join().
  bool pad = true;

  std::uint64_t seed = 0;

  bool operator==(const SamplerOptions&) const = default;
};

// What one rank takes in one step, as places in the epoch's order. Places at
// or beyond the dataset's size are padding.
struct Share {
  std::int64_t begin = 0;
  std::int64_t count = 0;    // 0 when this rank has no part in the step
  std::int64_t step_end = 0; // the first place that no rank takes in this step

  bool operator==(const Share&) const = default;
};

// The share of options.rank in the step that starts at the place `position`,
// or nothing when no rank has a step there: the epoch ends. A step takes
// batch_size * num_replicas places, each rank a contiguous piece.
std::optional<Share> share_at(
    std::int64_t dataset_size,
    const SamplerOptions& options,
    std::int64_t position);

// The samples of one step of one rank.
struct Batch {
  std::vector<std::int64_t> indices;
  std::int64_t epoch = 0;
  std::int64_t step_end = 0; // places of the epoch's order used up after it

  bool operator==(const Batch&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Batch& batch);

// The batches that rank options.rank takes from `position` to the end of the
// epoch. Pure: it needs neither ranks nor data. Throws InvalidArgument.
std::vector<Batch> plan_batches(
    std::int64_t dataset_size,
    const SamplerOptions& options,
    std::int64_t epoch,
    std::int64_t position = 0);

// Throws InvalidArgument that names the field.
void check_options(std::int64_t dataset_size, const SamplerOptions& options);

// The sample at each place of `share`. `order` is the epoch's order, or empty
// for 0, 1, 2, ...
std::vector<std::int64_t> indices_of(
    const Share& share,
    const std::vector<std::int64_t>& order,
    std::int64_t dataset_size);

} // namespace argosy::data
