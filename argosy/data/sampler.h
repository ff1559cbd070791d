#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/data/batch_plan.h"

namespace argosy::data {

// Anything with a number of samples.
template <typename T>
concept Sized = requires(const T& dataset) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
};

// How far a run has come. The position counts the samples of all ranks, so that
// it is the same on every rank, and a run may go on with another number of
// ranks or another batch size.
struct SamplerState {
  std::int64_t epoch = 0;
  std::int64_t position = 0; // places of the epoch's order that are used up
  // What the order depends on; must be the same when the run goes on.
  std::int64_t dataset_size = 0;
  bool shuffle = false;
  std::uint64_t seed = 0;

  bool operator==(const SamplerState&) const = default;

  std::string to_json() const;
  // Throws InvalidArgument that names the field.
  static SamplerState from_json(std::string_view text);
};

// Deals the samples of a dataset to ranks, batch by batch. All ranks must
// construct it with the same arguments but for `rank`. Not thread-safe.
class DistributedBatchSampler {
 public:
  // Throws InvalidArgument.
  DistributedBatchSampler(std::int64_t dataset_size, SamplerOptions options);

  template <Sized Dataset>
  DistributedBatchSampler(const Dataset& dataset, SamplerOptions options)
      : DistributedBatchSampler(
            static_cast<std::int64_t>(dataset.size()), options) {}

  // The next batch of this rank. Nothing at the end of an epoch: the call after
  // that starts the next epoch.
  std::optional<Batch> next();

  // Batches that this rank takes in a whole epoch.
  std::int64_t size() const;

  std::int64_t epoch() const { return epoch_; }

  // Starts `epoch` from its beginning.
  void set_epoch(std::int64_t epoch);

  // What next() has given out counts as done. Where no rank has a step left in
  // the epoch, this is the beginning of the next one.
  SamplerState state() const;

  // Throws InvalidArgument when the state is of another dataset or order.
  void load_state(const SamplerState& state);

  const SamplerOptions& options() const { return options_; }

 private:
  void load_order();

  std::int64_t dataset_size_;
  SamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
  // Of order_epoch_; empty without shuffle.
  std::vector<std::int64_t> order_;
  std::optional<std::int64_t> order_epoch_;
};

} // namespace argosy::data
