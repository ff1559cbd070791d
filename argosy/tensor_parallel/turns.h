#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// Threads of one rank that work by turns. Not installed.
namespace argosy::tensor_parallel {

// Whose turn it is among `count`: the next one's when somebody passes. Who has
// left is left out. Thread-safe.
class Turns {
 public:
  explicit Turns(int count) : here_(static_cast<std::size_t>(count), true) {}

  // Waits until the turn is `index`'s. The others come to an end, or wait for
  // operations that have a deadline, so it comes.
  void wait_for(int index);

  // Gives the turn on and waits for the next one.
  void pass(int index);

  // Gives the turn on for good.
  void leave(int index);

 private:
  void give_on(int index);

  std::mutex mutex_;
  std::condition_variable changed_;
  int current_ = 0;        // guarded by mutex_
  std::vector<bool> here_; // guarded by mutex_
};

// Threads that carry out the same function by turns: a thread's turn ends when
// it is about to wait for an operation of a group, and the operation then runs
// beside the next thread's turn. So all ranks issue the operations of all
// threads in the same order.
class TurnThreads {
 public:
  explicit TurnThreads(int count);
  ~TurnThreads();
  TurnThreads(const TurnThreads&) = delete;
  TurnThreads& operator=(const TurnThreads&) = delete;

  // Runs body(i) on thread i, for all of them, as the calling thread's rank and
  // with what LibTorch keeps for that thread. Throws what the first of them
  // threw. In traces each is a span of that name.
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
