#include "argosy/world/scheduler.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/world/connect.h"
#include "argosy/world/rendezvous.h"

namespace argosy {

namespace {

using std::chrono::milliseconds;
using Clock = Deadline::Clock;

// Many beats fit into the default silence of 30 s, so a slow store is not taken
// for a lost worker.
constexpr milliseconds kBeatInterval(500);

// How long the end of a rank waits for a beat that is under way.
constexpr milliseconds kLongestBeat(1000);

std::string beat_key(int rank) {
  return str("beat/", rank);
}

// When each worker was last heard.
class Register {
 public:
  Register(c10d::Store& store, int num_workers)
      : store_(store), heard_(num_workers), beats_(num_workers, 0) {}

  void look() {
    for (std::size_t rank = 0; rank < beats_.size(); ++rank) {
      // add() of 0 reads a counter without waiting; get() would block until the
      // worker comes.
      const std::int64_t now = store_.add(beat_key(static_cast<int>(rank)), 0);
      if (now != beats_[rank]) {
        beats_[rank] = now;
        heard_[rank] = Clock::now();
      }
    }
  }

  // A worker whose work is short may have left before its first heartbeat.
  std::vector<int> never_heard() const {
    return select(
        [&](std::size_t rank) { return beats_[rank] == 0 && !has_left(rank); });
  }

  // A worker that left on purpose sends no heartbeats; World::leave() announced
  // it.
  std::vector<int> silent_for(milliseconds limit) const {
    return select([&](std::size_t rank) {
      return Clock::now() - heard_[rank] > limit && !has_left(rank);
    });
  }

  bool all_left() const {
    return select([&](std::size_t rank) { return !has_left(rank); }).empty();
  }

 private:
  bool has_left(std::size_t rank) const {
    return store_.check({departure_key(static_cast<int>(rank))});
  }

  template <typename Predicate>
  std::vector<int> select(const Predicate& predicate) const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < beats_.size(); ++rank) {
      if (predicate(rank)) {
        ranks.push_back(static_cast<int>(rank));
      }
    }
    return ranks;
  }

  c10d::Store& store_;
  std::vector<Clock::time_point> heard_;
  std::vector<std::int64_t> beats_;
};

} // namespace

void serve_as_scheduler(
    c10d::Store& store,
    int num_workers,
    Deadline come_by,
    milliseconds silence) {
  Register workers(store, num_workers);
  for (workers.look(); !workers.never_heard().empty(); workers.look()) {
    if (come_by.expired()) {
      throw TimeoutError(str_format(
          "[world.scheduler] worker {} of {} did not come within {}",
          ranges_text(workers.never_heard()),
          num_workers,
          come_by.limit_text()));
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
  log::info("[world.scheduler] all {} workers came", num_workers);
  while (!workers.all_left()) {
    std::this_thread::sleep_for(milliseconds(50));
    workers.look();
    const auto silent = workers.silent_for(silence);
    if (!silent.empty()) {
      throw PeerLost(str_format(
          "[world.scheduler] worker {} of {} was silent for {}",
          ranges_text(silent),
          num_workers,
          duration_text(silence)));
    }
  }
}

struct Heartbeat::Impl {
  Impl(c10::intrusive_ptr<c10d::Store> connection, int own_rank)
      : store(std::move(connection)), rank(own_rank) {}

  const c10::intrusive_ptr<c10d::Store> store;
  const int rank;
  std::mutex mutex; // never held across a beat, which may take for ever
  std::condition_variable changed;
  bool stop = false;  // guarded by mutex
  bool ended = false; // guarded by mutex

  void run() {
    try {
      beat_until_stopped();
    } catch (const std::exception& error) {
      // The scheduler is gone; the rank's own waits will report it.
      log::debug("[world.heartbeat] ", error.what());
    }
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }

  void beat_until_stopped() {
    std::unique_lock lock(mutex);
    while (!stop) {
      lock.unlock();
      store->add(beat_key(rank), 1);
      lock.lock();
      changed.wait_for(lock, kBeatInterval, [&] { return stop; });
    }
  }
};

// A connection of its own: a long wait() of the rank would block heartbeats on
// the same one.
Heartbeat::Heartbeat(const LaunchInfo& info, int rank, Deadline deadline)
    : Heartbeat(connect(info, deadline).store, rank) {}

Heartbeat::Heartbeat(const c10::intrusive_ptr<c10d::Store>& store, int rank)
    : impl_(std::make_shared<Impl>(store, rank)) {
  std::thread([impl = impl_] { impl->run(); }).detach();
}

Heartbeat::~Heartbeat() {
  std::unique_lock lock(impl_->mutex);
  impl_->stop = true;
  impl_->changed.notify_all();
  impl_->changed.wait_for(lock, kLongestBeat, [&] { return impl_->ended; });
}

} // namespace argosy
