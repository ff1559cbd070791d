#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace argosy::rpc {

// Threads that run handlers. It grows when all are busy, so that slow handlers,
// or handlers that call others, do not hold up the next; a thread that has had
// nothing to do for a while ends. Thread-safe.
class HandlerPool {
 public:
  explicit HandlerPool(std::size_t most_threads)
      : most_threads_(most_threads) {}
  ~HandlerPool() { stop(); }

  // Tasks must not throw. After stop(), does nothing.
  void run(std::function<void()> task);

  // Also if all threads are busy and there may be no more.
  void run_at_once(std::function<void()> task);

  // Waits for tasks that run, and drops those that wait.
  void stop();

  std::size_t num_threads() const;

 private:
  void add(std::function<void()> task, std::size_t most_threads);
  void work(std::list<std::thread>::iterator self);

  const std::size_t most_threads_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::function<void()>> tasks_;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_; // to be joined
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

} // namespace argosy::rpc
