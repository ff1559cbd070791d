#include "argosy/comm/watched_connect.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/member_watch.h"
#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"
#include "argosy/common/text.h"

namespace argosy::comm {

namespace {

using namespace std::chrono_literals;

// Who connects looks at its own deadline, and has better words for it.
constexpr auto kOwnWords = 1000ms;
constexpr auto kSlice = 20ms;

// What the threads of one connection share; the last of them frees it.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::unique_ptr<Backend> backend;
  std::exception_ptr error;
  bool done = false;

  void end(std::unique_ptr<Backend> made, std::exception_ptr thrown) {
    const std::lock_guard lock(mutex);
    if (!done) {
      done = true;
      backend = std::move(made);
      error = std::move(thrown);
      changed.notify_all();
    }
  }
};

// So that errors of the thread name the rank.
void take_label(const std::string& label) {
  if (label.empty()) {
    return;
  }
  const auto parts = split(label, '/');
  const auto rank = parse_int(parts.front());
  const auto size = parse_int(parts.back());
  if (rank && size) {
    set_rank_label(static_cast<int>(*rank), static_cast<int>(*size));
  }
}

template <typename Act>
void start(const std::shared_ptr<Meeting>& meeting, Act act) {
  std::thread([meeting, label = rank_label(), act = std::move(act)] {
    take_label(label);
    try {
      act(*meeting);
    } catch (...) {
      meeting->end(nullptr, std::current_exception());
    }
  }).detach();
}

void start_watching(
    const std::shared_ptr<Meeting>& meeting,
    const std::shared_ptr<MemberWatch>& watch) {
  start(meeting, [watch](Meeting& with) {
    for (;;) {
      {
        std::unique_lock lock(with.mutex);
        if (with.changed.wait_for(
                lock, watch->interval(), [&] { return with.done; })) {
          return;
        }
      }
      if (auto error = watch->trouble()) {
        with.end(nullptr, error);
      }
    }
  });
}

} // namespace

std::unique_ptr<Backend> connect_watched(
    const MakeBackend& make,
    const Members& members,
    const std::shared_ptr<MemberWatch>& watch) {
  const auto meeting = std::make_shared<Meeting>();
  start(meeting, [make, members](Meeting& with) {
    with.end(make(members), nullptr);
  });
  const auto until = members.deadline.time() + kOwnWords;
  const auto watch_from = Deadline::Clock::now() + watch->interval();
  bool watching = false;
  std::unique_lock lock(meeting->mutex);
  while (
      !meeting->changed.wait_for(lock, kSlice, [&] { return meeting->done; })) {
    lock.unlock();
    const auto now = Deadline::Clock::now();
    if (auto error = watch->aborted()) {
      meeting->end(nullptr, error);
    } else if (now > until) {
      meeting->end(nullptr, watch->no_answer());
    } else if (!watching && now > watch_from) {
      watching = true;
      start_watching(meeting, watch);
    }
    lock.lock();
  }
  if (meeting->error) {
    // The thread that connects looks here when it waits in the store.
    watch->give_up(meeting->error);
    std::rethrow_exception(meeting->error);
  }
  return std::move(meeting->backend);
}

} // namespace argosy::comm
