#pragma once

#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/data/prefetcher.h"

namespace argosy::data {

// A number of samples, each accessible by index. Several threads may call
// get(), and a loader's collate function, at the same time.
template <typename D>
concept Dataset = Sized<D> && requires(const D& dataset, std::int64_t index) {
  dataset.get(index);
};

// A dataset that makes whole batches.
template <typename D>
concept BatchDataset = Sized<D> &&
    requires(const D& dataset, std::span<const std::int64_t> indices) {
  dataset.get_batch(indices);
};

template <Dataset D>
using SampleOf = std::decay_t<decltype(std::declval<const D&>().get(0))>;

// Returns the batches of a sampler, in order, loaded ahead by threads. Each
// rank has its own loader.
//
//   DataLoader loader(dataset, sampler, stack_images, {.num_threads = 2});
//   while (auto batch = loader.next()) { ... }
//
// Holds the dataset by value; a large dataset should hold its data by
// std::shared_ptr, as those in this module do. `collate` makes a batch from a
// vector of samples. Without it, the dataset's get_batch() makes the batch if
// there is one; otherwise the batch is the vector of samples. Not thread-safe.
template <typename D, typename Result>
class DataLoader {
 public:
  template <typename Collate>
  requires Dataset<D> &&
      std::invocable<const Collate&, std::vector<SampleOf<D>>>
      DataLoader(
          D dataset,
          DistributedBatchSampler sampler,
          Collate collate,
          LoaderOptions options = {})
      : prefetcher_{
            checked(std::move(sampler), dataset),
            by_sample(std::move(dataset), std::move(collate)),
            options} {}

  DataLoader(
      D dataset, DistributedBatchSampler sampler, LoaderOptions options = {})
      : prefetcher_{
            checked(std::move(sampler), dataset),
            load_of(std::move(dataset)),
            options} {}

  // Returns the next batch; nullopt at the end of an epoch, after which the
  // next call starts a new epoch. Blocks. Throws TimeoutError after
  // options.timeout, or at `deadline`; another call continues waiting for the
  // same batch. An exception from the dataset or `collate` is rethrown as an
  // Error that names the sample, with the original nested; another call
  // continues after that batch.
  std::optional<Result> next() {
    return next(Deadline::after(prefetcher_.options().timeout));
  }
  std::optional<Result> next(const Deadline& deadline) {
    const auto batch = prefetcher_.next(deadline);
    if (!batch) {
      return std::nullopt;
    }
    return std::move(*static_cast<Result*>(batch.get()));
  }

  // The number of batches of this rank in an epoch.
  std::int64_t size() const { return prefetcher_.size(); }

  // The state for resuming: batches returned by next() count as done,
  // prefetched ones do not. load_state() discards prefetched batches.
  SamplerState state() const { return prefetcher_.state(); }
  void load_state(const SamplerState& state) { prefetcher_.load_state(state); }
  void set_epoch(std::int64_t epoch) { prefetcher_.set_epoch(epoch); }

 private:
  static DistributedBatchSampler checked(
      DistributedBatchSampler sampler, const D& dataset) {
    const std::int64_t expected = sampler.state().dataset_size;
    ARGOSY_CHECK(
        static_cast<std::int64_t>(dataset.size()) == expected,
        "[data.loader] a dataset of {} samples, expected {} as the sampler has",
        dataset.size(),
        expected);
    return sampler;
  }

  template <typename Collate>
  static Prefetcher::Load by_sample(D dataset, Collate collate) {
    return
        [kept = std::make_shared<const D>(std::move(dataset)),
         collate = std::move(collate)](
            const Batch& batch, LoadStatus& status) -> std::shared_ptr<void> {
          std::vector<SampleOf<D>> samples;
          samples.reserve(batch.indices.size());
          for (const std::int64_t index : batch.indices) {
            if (status.cancelled) {
              return nullptr;
            }
            status.index = index;
            samples.push_back(kept->get(index));
          }
          status.index = LoadStatus::kNoSample;
          return std::make_shared<Result>(collate(std::move(samples)));
        };
  }

  static Prefetcher::Load load_of(D dataset) {
    if constexpr (BatchDataset<D>) {
      return [kept = std::make_shared<const D>(std::move(dataset))](
                 const Batch& batch, LoadStatus&) -> std::shared_ptr<void> {
        return std::make_shared<Result>(kept->get_batch(batch.indices));
      };
    } else {
      return by_sample(
          std::move(dataset), [](Result samples) { return samples; });
    }
  }

  // Initialized with braces, which evaluate from left to right, so that the
  // dataset is checked before it is moved.
  Prefetcher prefetcher_;
};

template <Dataset D, typename Collate>
requires std::invocable<const Collate&, std::vector<SampleOf<D>>> DataLoader(
    D, DistributedBatchSampler, Collate, LoaderOptions = {})
->DataLoader<
    D,
    std::decay_t<
        std::invoke_result_t<const Collate&, std::vector<SampleOf<D>>>>>;

template <BatchDataset D>
DataLoader(D, DistributedBatchSampler, LoaderOptions = {}) -> DataLoader<
    D,
    std::decay_t<decltype(std::declval<const D&>().get_batch(
        std::span<const std::int64_t>()))>>;

template <Dataset D>
requires(!BatchDataset<D>)
    DataLoader(D, DistributedBatchSampler, LoaderOptions = {})
->DataLoader<D, std::vector<SampleOf<D>>>;

} // namespace argosy::data
