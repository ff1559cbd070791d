#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "argosy/comm/work.h"

namespace argosy::comm {

// The communication stream of a group: carries operations out in the order in
// which they were issued. Synchronous ones run on the calling thread when
// nothing is under way, so that they cost no hand-over; the others on a thread
// that the first of them starts.
class Worker {
 public:
  Worker() = default;
  ~Worker(); // what has not begun fails: the others may be gone
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Throws what the operation throws.
  void run_now(const std::function<void()>& operation);

  std::shared_ptr<Work> run_later(std::function<void()> operation);

 private:
  using Item = std::pair<std::shared_ptr<Work>, std::function<void()>>;

  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Item> waiting_;
  bool busy_ = false; // an operation is being carried out
  bool stop_ = false;
  std::thread thread_; // started by the first run_later()
};

} // namespace argosy::comm
