#include "argosy/data/sampler.h"

#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/data/shuffle.h"
#include "argosy/world/data_ranks.h"

namespace argosy::data {

namespace {

template <typename T>
T field(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  ARGOSY_CHECK(found != object.end(), "[data.sampler] state without ", name);
  try {
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    // A string may be no UTF-8, which dump() would throw about.
    throw InvalidArgument(str_format(
        "[data.sampler] state has {} {}, wrong type",
        name,
        found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
}

template <typename T>
void check_same(const char* name, const T& theirs, const T& ours) {
  ARGOSY_CHECK(
      theirs == ours,
      "[data.sampler] the state has {} {}, this sampler {}; expected the same",
      name,
      theirs,
      ours);
}

// Fills in what the caller left to the world. A number of replicas without a
// rank says which rank only if it is 1, or that of the world.
SamplerOptions with_ranks(SamplerOptions options) {
  if (options.num_replicas && options.rank) {
    return options;
  }
  if (options.num_replicas == 1) {
    options.rank = 0;
    return options;
  }
  const DataRanks ours = current_data_ranks("data.sampler");
  ARGOSY_CHECK(
      options.rank || options.num_replicas.value_or(ours.size) == ours.size,
      "[data.sampler] num_replicas {} without rank, but this world has {} data "
      "ranks: give both, or neither",
      options.replicas(),
      ours.size);
  options.num_replicas = options.num_replicas.value_or(ours.size);
  options.rank = options.rank.value_or(ours.rank);
  return options;
}

} // namespace

std::string SamplerState::to_json() const {
  return nlohmann::json{
      {"epoch", epoch},
      {"position", position},
      {"dataset_size", dataset_size},
      {"shuffle", shuffle},
      {"seed", seed}}
      .dump();
}

SamplerState SamplerState::from_json(std::string_view text) {
  const auto object = nlohmann::json::parse(text, nullptr, false);
  ARGOSY_CHECK(
      object.is_object(),
      "[data.sampler] state {}, expected a JSON object",
      text.substr(0, 40));
  return {
      .epoch = field<std::int64_t>(object, "epoch"),
      .position = field<std::int64_t>(object, "position"),
      .dataset_size = field<std::int64_t>(object, "dataset_size"),
      .shuffle = field<bool>(object, "shuffle"),
      .seed = field<std::uint64_t>(object, "seed")};
}

DistributedBatchSampler::DistributedBatchSampler(
    std::int64_t dataset_size, SamplerOptions options, const CallSite& site)
    : dataset_size_(dataset_size), options_(with_ranks(options)) {
  check_options(dataset_size, options_);
  check_ = SamplerCheck(
      {site.text(), dataset_size, options_, !options.num_replicas});
}

std::optional<Batch> DistributedBatchSampler::next() {
  check_.check();
  const auto range = rank_range_at(dataset_size_, options_, position_);
  // Without padding, the last step may have no sample for this rank.
  if (!range || range->count == 0) {
    set_epoch(epoch_ + 1);
    return std::nullopt;
  }
  load_order();
  position_ = range->step_end;
  return Batch{
      indices_of(*range, order_, dataset_size_), epoch_, range->step_end};
}

std::int64_t DistributedBatchSampler::size() const {
  return num_batches(dataset_size_, options_);
}

void DistributedBatchSampler::set_epoch(std::int64_t epoch) {
  ARGOSY_CHECK(
      epoch >= 0, "[data.sampler] epoch {}, expected 0 or more", epoch);
  epoch_ = epoch;
  position_ = 0;
}

SamplerState DistributedBatchSampler::state() const {
  SamplerState state{
      epoch_, position_, dataset_size_, options_.shuffle, options_.seed};
  // After the last batch the state names the next epoch: a run that resumes
  // from it begins with a batch instead of an end of epoch.
  if (position_ > 0 && !rank_range_at(dataset_size_, options_, position_)) {
    state.epoch += 1;
    state.position = 0;
  }
  return state;
}

void DistributedBatchSampler::load_state(const SamplerState& state) {
  // With another size, order or seed, the position would mean other samples.
  // Batch size and number of ranks may change.
  check_same("dataset_size", state.dataset_size, dataset_size_);
  check_same("shuffle", state.shuffle, options_.shuffle);
  check_same("seed", state.seed, options_.seed);
  ARGOSY_CHECK(
      state.position >= 0,
      "[data.sampler] position {}, expected 0 or more",
      state.position);
  // Resets the position, so it comes before the position is set.
  set_epoch(state.epoch);
  position_ = state.position;
}

void DistributedBatchSampler::load_order() {
  // Shuffling takes O(dataset) time, so the order is kept for the epoch.
  if (options_.shuffle && order_epoch_ != epoch_) {
    order_ = shuffled_indices(dataset_size_, options_.seed, epoch_);
    order_epoch_ = epoch_;
  }
}

} // namespace argosy::data
