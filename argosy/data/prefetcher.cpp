#include "argosy/data/prefetcher.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/log.h"

namespace argosy::data {

namespace {

// A batch being loaded. `batch` is constant. The loading thread owns `result`
// and `error` until it sets `ready`, which the queue's mutex guards.
struct Place {
  std::optional<Batch> batch; // nullopt: end of an epoch
  SamplerState after;         // the sampler's state after this batch
  LoadStatus status;
  std::shared_ptr<void> result;
  std::exception_ptr error;
  bool ready = false;
};

std::string name_of(const Place& place) {
  const std::int64_t index = place.status.index;
  if (index != LoadStatus::kNoSample) {
    return str("sample ", index, " of epoch ", place.batch->epoch);
  }
  if (place.batch && !place.batch->indices.empty()) {
    return str_format(
        "the batch of {} samples from {} on, epoch {}",
        place.batch->indices.size(),
        place.batch->indices.front(),
        place.batch->epoch);
  }
  return "the sampler";
}

[[noreturn]] void throw_error_of(const Place& place) {
  const std::string name = str("[data.loader] ", name_of(place), ": ");
  try {
    std::rethrow_exception(place.error);
  } catch (const std::exception& error) {
    // Names the sample and keeps the original for callers that look for it.
    std::throw_with_nested(Error(name + error.what()));
  } catch (...) {
    std::throw_with_nested(Error(name + "an exception of unknown type"));
  }
}

} // namespace

// The queue and what its threads need. Each thread owns a reference, so that a
// thread that the destructor had to detach never touches freed memory.
//
// Batches leave the queue in the order in which the sampler made them: a place
// enters the queue under the lock, before it is loaded, and next() waits for
// the front place even if a later one is ready. num_prefetch bounds the places,
// and so the memory of batches that nobody has asked for yet.
struct Prefetcher::Shared {
  Shared(DistributedBatchSampler the_sampler, Load the_load, int prefetch)
      : load(std::move(the_load)),
        num_prefetch(prefetch),
        sampler(std::move(the_sampler)),
        delivered(sampler.state()) {}

  std::shared_ptr<Place> take_place();
  void load_place(Place& place) const;
  void work();
  void drop_slots();

  const Load load;
  const std::size_t num_prefetch;

  std::mutex mutex;
  std::condition_variable room; // notifies threads: work or stop
  // Notifies next(): a place is ready or a thread ended.
  std::condition_variable ready;
  // Guarded by mutex.
  DistributedBatchSampler sampler;
  SamplerState delivered;
  std::deque<std::shared_ptr<Place>> places; // in the sampler's order
  bool paused = true; // between epochs, until next() is called
  bool stop = false;
  int num_running = 0; // threads in work()
};

// Call with the mutex held. Returns null if there is nothing to load. Slots for
// the end of an epoch or a sampler's error enter the queue but need no loading.
std::shared_ptr<Place> Prefetcher::Shared::take_place() {
  if (paused || places.size() >= num_prefetch) {
    return nullptr;
  }
  auto place = std::make_shared<Place>();
  try {
    place->batch = sampler.next();
    place->after = sampler.state();
  } catch (...) {
    place->error = std::current_exception();
  }
  places.push_back(place);
  if (place->batch) {
    return place;
  }
  // Also after an error: next() reports it before the sampler goes on.
  paused = true;
  place->ready = true;
  ready.notify_all();
  return nullptr;
}

void Prefetcher::Shared::load_place(Place& place) const {
  try {
    place.result = load(*place.batch, place.status);
  } catch (...) {
    place.error = std::current_exception();
  }
}

// Each thread takes the next batch under the lock and loads it without, so that
// places are in order while loads overlap.
void Prefetcher::Shared::work() {
  std::unique_lock lock(mutex);
  while (!stop) {
    const auto place = take_place();
    if (!place) {
      room.wait(lock);
      continue;
    }
    lock.unlock();
    load_place(*place);
    lock.lock();
    place->ready = true;
    ready.notify_all();
  }
  // The destructor waits on `ready` until no thread is left.
  --num_running;
  ready.notify_all();
}

// Call with the mutex held. Threads that load one of the places discard the
// result.
void Prefetcher::Shared::drop_slots() {
  for (const auto& place : places) {
    place->status.cancelled = true;
  }
  places.clear();
  paused = true;
}

struct Prefetcher::Threads {
  std::vector<std::thread> all;
};

Prefetcher::Prefetcher(
    DistributedBatchSampler sampler, Load load, LoaderOptions options)
    : options_(options), threads_(std::make_unique<Threads>()) {
  ARGOSY_CHECK(
      options.num_threads >= 0,
      "[data.loader] num_threads {}, expected 0 or more",
      options.num_threads);
  ARGOSY_CHECK(
      options.num_prefetch >= 1,
      "[data.loader] num_prefetch {}, expected 1 or more",
      options.num_prefetch);
  shared_ = std::make_shared<Shared>(
      std::move(sampler), std::move(load), options.num_prefetch);
}

Prefetcher::~Prefetcher() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->drop_slots();
  shared_->room.notify_all();
  // Bounded, because a read from a dead file system may never return.
  const bool ended = shared_->ready.wait_until(
      lock, Deadline::after(options_.shutdown).time(), [this] {
        return shared_->num_running == 0;
      });
  lock.unlock();
  if (!ended) {
    log::warn(
        "[data.loader] a sample is still being read after {}; its thread is "
        "detached",
        duration_text(options_.shutdown));
  }
  for (std::thread& thread : threads_->all) {
    ended ? thread.join() : thread.detach();
  }
}

// Called by the first next(), so that a state can be loaded before anything is
// read.
void Prefetcher::start_threads() {
  while (static_cast<int>(threads_->all.size()) < options_.num_threads) {
    threads_->all.emplace_back([shared = shared_] { shared->work(); });
    // next() holds the mutex, which work() takes first: no thread can count
    // itself out before it is counted here.
    ++shared_->num_running;
  }
}

std::shared_ptr<void> Prefetcher::next(const Deadline& deadline) {
  std::unique_lock lock(shared_->mutex);
  start_threads();
  auto& places = shared_->places;
  // At the first call and after the end of an epoch, loading is paused.
  if (places.empty()) {
    shared_->paused = false;
  }
  // Without threads, the caller loads the batch.
  if (options_.num_threads == 0) {
    if (const auto place = shared_->take_place()) {
      shared_->load_place(*place);
      place->ready = true;
    }
  }
  shared_->room.notify_all();
  const auto is_ready = [&] {
    return !places.empty() && places.front()->ready;
  };
  if (!shared_->ready.wait_until(lock, deadline.time(), is_ready)) {
    // The place stays in the queue: a later next() can still return it.
    throw TimeoutError(str_format(
        "[data.loader] {} was not ready after {}",
        places.empty() ? "the next batch" : name_of(*places.front()),
        deadline.limit_text()));
  }
  const auto place = std::move(places.front());
  places.pop_front();
  shared_->room.notify_all();
  if (place->error) {
    throw_error_of(*place);
  }
  // Counts only after success; a failed batch is skipped, not repeated.
  shared_->delivered = place->after;
  return place->result;
}

std::int64_t Prefetcher::size() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->sampler.size();
}

SamplerState Prefetcher::state() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->delivered;
}

void Prefetcher::load_state(const SamplerState& state) {
  const std::lock_guard lock(shared_->mutex);
  // First, because it throws for a state that does not fit.
  shared_->sampler.load_state(state);
  shared_->drop_slots();
  shared_->delivered = shared_->sampler.state();
}

void Prefetcher::set_epoch(std::int64_t epoch) {
  SamplerState state = this->state();
  state.epoch = epoch;
  state.position = 0;
  load_state(state);
}

} // namespace argosy::data
