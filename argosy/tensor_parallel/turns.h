#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// Threads of one rank of which one runs at a time. Not installed.
namespace argosy::tensor_parallel {

// Passes a turn around `count` threads. Skips threads that have left.
// Thread-safe.
class Turns {
 public:
  explicit Turns(int count) : here_(static_cast<std::size_t>(count), true) {}

  // Blocks until it is the turn of `index`. That happens, because the other
  // threads end, or wait for operations that have a deadline.
  void wait_for(int index);

  // Passes the turn on and blocks until the next one.
  void pass(int index);

  // Passes the turn on and leaves.
  void leave(int index);

 private:
  void give_on(int index);

  std::mutex mutex_;
  std::condition_variable changed_;
  int current_ = 0;        // guarded by mutex_
  std::vector<bool> here_; // guarded by mutex_
};

// Threads that run the same function, one at a time. A thread passes its turn
// when it is about to wait for an operation of a group, so that the operation
// overlaps with the next thread's work. All ranks then issue the operations of
// all threads in the same order.
class TurnThreads {
 public:
  explicit TurnThreads(int count);
  ~TurnThreads();
  TurnThreads(const TurnThreads&) = delete;
  TurnThreads& operator=(const TurnThreads&) = delete;

  // Runs body(i) on each thread i, as the rank of the calling thread and with
  // LibTorch's thread-local state of that thread. Blocks until all have ended,
  // and rethrows the exception of the first that threw. `name` is the name of
  // the spans in traces.
  void run(const std::string& name, const std::function<void(int)>& body);

 private:
  void loop(int index);

  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  const std::function<void(int)>* task_ = nullptr;
  int round_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_; // last: they use the others
};

} // namespace argosy::tensor_parallel
