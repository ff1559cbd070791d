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
  int num_threads = 1;  // 0: next() loads on the calling thread
  int num_prefetch = 4; // batches at most that are under way or ready
  std::chrono::milliseconds timeout = std::chrono::minutes(10); // of next()
  // How long the destructor waits for a sample that is being read.
  std::chrono::milliseconds shutdown = std::chrono::seconds(10);
};

// What a load tells about itself, and is told, while it runs.
struct LoadStatus {
  static constexpr std::int64_t kNoSample = -1;

  std::atomic<std::int64_t> index{kNoSample}; // the sample being read
  std::atomic<bool> cancelled{false};         // nobody wants the result
};

// The part of a DataLoader that does not depend on types: threads that load the
// sampler's batches ahead, and a queue that keeps their order.
class Prefetcher {
 public:
  // Makes a batch; called by several threads at a time. May return anything
  // once status.cancelled is set.
  using Load =
      std::function<std::shared_ptr<void>(const Batch&, LoadStatus& status)>;

  Prefetcher(DistributedBatchSampler sampler, Load load, LoaderOptions options);
  // Does not hang: a thread that is still in `load` after options.shutdown is
  // left to itself, with a warning.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // What `load` made of the next batch, or null at the end of an epoch.
  std::shared_ptr<void> next(const Deadline& deadline);

  std::int64_t size() const;
  SamplerState state() const;
  void load_state(const SamplerState& state);
  void set_epoch(std::int64_t epoch);
  const LoaderOptions& options() const { return options_; }

 private:
  struct Shared; // outlives this when a thread does
  void start_threads();

  const LoaderOptions options_;
  std::shared_ptr<Shared> shared_;
  struct Threads;
  std::unique_ptr<Threads> threads_;
};

} // namespace argosy::data
