#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <vector>

namespace argosy::data {

struct SamplerOptions {
  std::int64_t batch_size = 1; // per rank and step

  // How many ranks share the dataset, and which of them this is. Unset: the
  // data ranks of the calling thread's world (world/data_ranks.h); the pure
  // functions below, which know no world, take that as one rank.
  std::optional<int> num_replicas = std::nullopt;
  std::optional<int> rank = std::nullopt;

  bool shuffle = false; // a new order each epoch; see shuffled_indices()

  // If batch_size * num_replicas does not divide the dataset, the last step of
  // an epoch is smaller. It is dropped, or divided evenly between the ranks:
  bool drop_last = false;

  // Repeats up to num_replicas - 1 samples from the start of the epoch's order,
  // so that all ranks get equal numbers of samples and steps. If false, the
  // first ranks get one sample more, and some ranks may get one step less;
  // training then needs join().
  bool pad = true;

  std::uint64_t seed = 0;

  std::int64_t replicas() const { return num_replicas.value_or(1); }
  std::int64_t replica() const { return rank.value_or(0); }

  bool operator==(const SamplerOptions&) const = default;
};

// The samples of one rank in one step, as positions in the epoch's order.
// Positions at or beyond the dataset's size are padding.
struct RankRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;    // 0 if this rank has no samples in the step
  std::int64_t step_end = 0; // the end of the step over all ranks

  bool operator==(const RankRange&) const = default;
};

// Returns the range of options.rank in the step that starts at `position`;
// nullopt at the end of the epoch, when no rank has a step there. A step covers
// batch_size * num_replicas positions, of which each rank gets a contiguous
// range.
std::optional<RankRange> rank_range_at(
    std::int64_t dataset_size,
    const SamplerOptions& options,
    std::int64_t position);

// The number of batches of rank options.rank in an epoch.
std::int64_t num_batches(
    std::int64_t dataset_size, const SamplerOptions& options);

// The samples of one rank in one step.
struct Batch {
  std::vector<std::int64_t> indices;
  std::int64_t epoch = 0;
  std::int64_t step_end = 0; // positions consumed by all ranks after this step

  bool operator==(const Batch&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Batch& batch);

// Returns the batches of rank options.rank from `position` to the end of the
// epoch. A pure function; needs neither ranks nor data. Throws InvalidArgument
// for invalid options.
std::vector<Batch> plan_batches(
    std::int64_t dataset_size,
    const SamplerOptions& options,
    std::int64_t epoch,
    std::int64_t position = 0);

// Throws InvalidArgument, naming the field, for invalid options.
void check_options(std::int64_t dataset_size, const SamplerOptions& options);

// Returns the sample at each position. `order` is the epoch's order; empty
// means 0, 1, 2, ...
std::vector<std::int64_t> indices_of(
    const RankRange& range,
    const std::vector<std::int64_t>& order,
    std::int64_t dataset_size);

} // namespace argosy::data
