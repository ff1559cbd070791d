#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/call_site.h"
#include "argosy/data/batch_plan.h"
#include "argosy/data/sampler_check.h"

namespace argosy::data {

// Anything with a number of samples.
template <typename T>
concept Sized = requires(const T& dataset) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
};

// The progress of a run. `position` counts the samples of all ranks, so it is
// the same on every rank, and a run can resume with another number of ranks or
// another batch size.
struct SamplerState {
  std::int64_t epoch = 0;
  std::int64_t position = 0; // samples of this epoch consumed by all ranks
  // These determine the order, and must be equal when a run resumes.
  std::int64_t dataset_size = 0;
  bool shuffle = false;
  std::uint64_t seed = 0;

  bool operator==(const SamplerState&) const = default;

  std::string to_json() const;
  // Throws InvalidArgument, naming the field.
  static SamplerState from_json(std::string_view text);
};

// Distributes the samples of a dataset over ranks, batch by batch. All ranks
// construct it with equal arguments except `rank`; what the options leave out
// comes from the calling thread's world. Waits for no other rank. Not
// thread-safe.
class DistributedBatchSampler {
 public:
  // Throws InvalidArgument for invalid options; where the options do not say
  // the ranks and the job has several, but the calling thread has no world yet;
  // and for options that differ from those of another rank, if the sampler
  // shares the data among all ranks of the world. The samplers that ranks make
  // in the same line of the program are compared, the first with the first and
  // so on: one that a rank makes alone is compared with none.
  DistributedBatchSampler(
      std::int64_t dataset_size,
      SamplerOptions options,
      const CallSite& site = CallSite::here());

  template <Sized Dataset>
  DistributedBatchSampler(
      const Dataset& dataset,
      SamplerOptions options,
      const CallSite& site = CallSite::here())
      : DistributedBatchSampler(
            static_cast<std::int64_t>(dataset.size()), options, site) {}

  // Returns the next batch of this rank; nullopt at the end of an epoch, after
  // which the next call starts a new epoch. The first call throws
  // InvalidArgument if another rank found that its options differ.
  std::optional<Batch> next();

  // The number of batches of this rank in an epoch.
  std::int64_t size() const;

  std::int64_t epoch() const { return epoch_; }

  // Restarts at the beginning of `epoch`.
  void set_epoch(std::int64_t epoch);

  // Batches returned by next() count as done. After the last step of an epoch,
  // this is the beginning of the next one.
  SamplerState state() const;

  // Throws InvalidArgument when the state has another dataset size or order.
  void load_state(const SamplerState& state);

  // With num_replicas and rank set.
  const SamplerOptions& options() const { return options_; }

 private:
  void load_order();

  std::int64_t dataset_size_;
  SamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
  // The order of order_epoch_; empty without shuffle.
  std::vector<std::int64_t> order_;
  std::optional<std::int64_t> order_epoch_;
  SamplerCheck check_;
};

} // namespace argosy::data
