#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "argosy/common/deadline.h"
#include "argosy/data/sampler.h"

namespace argosy::data {

struct LoaderOptions {
  int num_threads = 1;  // 0: load in next(), on the calling thread
  int num_prefetch = 4; // limit of batches being loaded or ready
  std::chrono::milliseconds timeout = std::chrono::minutes(10); // of next()
  // How long the destructor waits for threads that are reading a sample.
  std::chrono::milliseconds shutdown = std::chrono::seconds(10);
};

// Shared between a running load and the Prefetcher.
struct LoadStatus {
  static constexpr std::int64_t kNoSample = -1;

  std::atomic<std::int64_t> index{kNoSample}; // the sample being read
  std::atomic<bool> cancelled{false};         // the result is no longer wanted
};

// The type-independent part of DataLoader: threads that load the sampler's
// batches ahead, and a queue that keeps them in order.
class Prefetcher {
 public:
  // Makes a batch. Called by several threads at the same time. May return
  // anything once status.cancelled is set.
  using Load =
      std::function<std::shared_ptr<void>(const Batch&, LoadStatus& status)>;

  Prefetcher(DistributedBatchSampler sampler, Load load, LoaderOptions options);
  // Waits at most options.shutdown. A thread that is still in `load` then is
  // detached, with a warning.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Returns what `load` made of the next batch, or null at the end of an epoch.
  std::shared_ptr<void> next(const Deadline& deadline);

  std::int64_t size() const;
  SamplerState state() const;
  void load_state(const SamplerState& state);
  void set_epoch(std::int64_t epoch);
  const LoaderOptions& options() const { return options_; }

 private:
  struct Shared; // outlives this object if a detached thread does
  void start_threads();

  const LoaderOptions options_;
  std::shared_ptr<Shared> shared_;
  struct Threads;
  std::unique_ptr<Threads> threads_;
};

} // namespace argosy::data
