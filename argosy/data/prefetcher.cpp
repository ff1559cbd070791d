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
struct Slot {
  std::optional<Batch> batch; // nullopt: end of an epoch
  SamplerState after;         // the sampler's state after this batch
  LoadStatus status;
  std::shared_ptr<void> result;
  std::exception_ptr error;
  bool ready = false;
};

std::string name_of(const Slot& slot) {
  const std::int64_t index = slot.status.index;
  if (index != LoadStatus::kNoSample) {
    return str("sample ", index, " of epoch ", slot.batch->epoch);
  }
  if (slot.batch && !slot.batch->indices.empty()) {
    return str_format(
        "the batch of {} samples from {} on, epoch {}",
        slot.batch->indices.size(),
        slot.batch->indices.front(),
        slot.batch->epoch);
  }
  return "the sampler";
}

[[noreturn]] void throw_error_of(const Slot& slot) {
  const std::string name = str("[data.loader] ", name_of(slot), ": ");
  try {
    std::rethrow_exception(slot.error);
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
// Batches leave the queue in the order in which the sampler made them: a slot
// enters the queue under the lock, before it is loaded, and next() waits for
// the front slot even if a later one is ready. num_prefetch bounds the slots,
// and so the memory of batches that nobody has asked for yet.
struct Prefetcher::Shared {
  Shared(DistributedBatchSampler the_sampler, Load the_load, int prefetch)
      : load(std::move(the_load)),
        num_prefetch(prefetch),
        sampler(std::move(the_sampler)),
        delivered(sampler.state()) {}

  std::shared_ptr<Slot> take_slot();
  void load_slot(Slot& slot) const;
  void work();
  void drop_slots();

  const Load load;
  const std::size_t num_prefetch;

  std::mutex mutex;
  std::condition_variable room; // notifies threads: work or stop
  // Notifies next(): a slot is ready or a thread ended.
  std::condition_variable ready;
  // Guarded by mutex.
  DistributedBatchSampler sampler;
  SamplerState delivered;
  std::deque<std::shared_ptr<Slot>> slots; // in the sampler's order
  bool paused = true; // between epochs, until next() is called
  bool stop = false;
  int num_running = 0; // threads in work()
};

// Call with the mutex held. Returns null if there is nothing to load. Slots for
// the end of an epoch or a sampler's error enter the queue but need no loading.
std::shared_ptr<Slot> Prefetcher::Shared::take_slot() {
  if (paused || slots.size() >= num_prefetch) {
    return nullptr;
  }
  auto slot = std::make_shared<Slot>();
  try {
    slot->batch = sampler.next();
    slot->after = sampler.state();
  } catch (...) {
    slot->error = std::current_exception();
  }
  slots.push_back(slot);
  if (slot->batch) {
    return slot;
  }
  // Also after an error: next() reports it before the sampler goes on.
  paused = true;
  slot->ready = true;
  ready.notify_all();
  return nullptr;
}

void Prefetcher::Shared::load_slot(Slot& slot) const {
  try {
    slot.result = load(*slot.batch, slot.status);
  } catch (...) {
    slot.error = std::current_exception();
  }
}

// Each thread takes the next batch under the lock and loads it without, so that
// slots are in order while loads overlap.
void Prefetcher::Shared::work() {
  std::unique_lock lock(mutex);
  while (!stop) {
    const auto slot = take_slot();
    if (!slot) {
      room.wait(lock);
      continue;
    }
    lock.unlock();
    load_slot(*slot);
    lock.lock();
    slot->ready = true;
    ready.notify_all();
  }
  // The destructor waits on `ready` until no thread is left.
  --num_running;
  ready.notify_all();
}

// Call with the mutex held. Threads that load one of the slots discard the
// result.
void Prefetcher::Shared::drop_slots() {
  for (const auto& slot : slots) {
    slot->status.cancelled = true;
  }
  slots.clear();
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
  auto& slots = shared_->slots;
  // At the first call and after the end of an epoch, loading is paused.
  if (slots.empty()) {
    shared_->paused = false;
  }
  // Without threads, the caller loads the batch.
  if (options_.num_threads == 0) {
    if (const auto slot = shared_->take_slot()) {
      shared_->load_slot(*slot);
      slot->ready = true;
    }
  }
  shared_->room.notify_all();
  const auto is_ready = [&] { return !slots.empty() && slots.front()->ready; };
  if (!shared_->ready.wait_until(lock, deadline.time(), is_ready)) {
    // The slot stays in the queue: a later next() can still return it.
    throw TimeoutError(str_format(
        "[data.loader] {} was not ready after {}",
        slots.empty() ? "the next batch" : name_of(*slots.front()),
        deadline.limit_text()));
  }
  const auto slot = std::move(slots.front());
  slots.pop_front();
  shared_->room.notify_all();
  if (slot->error) {
    throw_error_of(*slot);
  }
  // Counts only after success; a failed batch is skipped, not repeated.
  shared_->delivered = slot->after;
  return slot->result;
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
