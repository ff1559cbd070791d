#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/rpc/spin.h"
#include "argosy/store/socket.h"

namespace argosy::rpc {

// The thread of an endpoint that waits: for descriptors (epoll), for work in
// shared memory, and for the time. It spins, then sleeps until a descriptor or
// a peer, who writes to its eventfd, wakes it. All methods are thread-safe.
class Loop {
 public:
  using Time = Deadline::Clock::time_point;

  // Somebody for whom the loop waits. Called on the loop's thread, except where
  // said otherwise.
  class Source {
   public:
    virtual ~Source() = default;
    virtual void on_events(std::uint32_t events) = 0; // of epoll

    // For work in shared memory. poll() does some and returns whether there was
    // any; has_work() looks only. await_event() arranges that the peer writes
    // to the eventfd, and returns false if there is work; end_wait() undoes it.
    // expects_work(): whether it is worth to spin for it.
    virtual bool poll() { return false; }
    virtual bool expects_work() const { return true; }
    virtual bool has_work() const { return false; }
    virtual bool await_event() { return true; }
    virtual void end_wait() {}
  };

  // `tick` is called at the time that it returned last, or that at_latest()
  // asked for.
  explicit Loop(std::function<Time(Time now)> tick);
  ~Loop();

  void start();

  // Ends the thread; what is posted later never runs.
  void stop();

  bool on_thread() const;

  std::uint64_t watch(
      int fd, std::uint32_t events, std::shared_ptr<Source> source);
  void change(std::uint64_t id, int fd, std::uint32_t events);
  void forget(std::uint64_t id, int fd);

  // Sources with work in shared memory; on the loop's thread only.
  void add_polled(std::shared_ptr<Source> source);
  void drop_polled(const Source* source);

  // Runs on the loop's thread, soon.
  void post(std::function<void()> task);

  // On the loop's thread: runs the task there when nothing has happened for
  // some microseconds, so that what it costs holds up no call, or else after a
  // part of a millisecond.
  void defer(std::function<void()> task);

  // Ensures a tick at `time` or before.
  void at_latest(Time time);

  // The eventfd; for peers.
  int event_fd() const { return event_.fd(); }

 private:
  void run();
  void wait();
  bool prepare_sleep();
  bool has_work() const;
  bool expects_work() const;
  bool handle_events(int timeout_ms);
  bool spin();
  bool poll_all();
  void run_posted();
  void run_deferred();
  bool works_soon();
  bool lower_next_tick(Time time);
  void run_tick(Time now);
  int next_timeout() const;

  const store::Socket epoll_;
  const store::Socket event_;
  const std::function<Time(Time)> tick_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> next_tick_; // ns of the clock
  std::atomic<bool> has_posted_{false};

  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::uint64_t, std::shared_ptr<Source>> watched_;
  std::uint64_t last_id_ = 0;
  std::vector<std::function<void()>> posted_;

  // Of the loop's thread.
  std::vector<std::shared_ptr<Source>> polled_;
  std::vector<std::function<void()>> deferred_;
  Time deferred_since_; // if there are any
  SpinBudget spin_;
  SpinBudget socket_spin_;
  bool socket_talks_ = false; // a descriptor was ready when it looked last
  Time woken_;                // from its last sleep
  int busy_passes_ = 0;       // since it looked at descriptors
};

} // namespace argosy::rpc
