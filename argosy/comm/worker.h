#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "argosy/comm/work.h"
#include "argosy/common/deadline.h"

namespace argosy::comm {

// The communication stream of a group: runs operations in the order in which
// they were issued. A synchronous operation runs on the calling thread once
// those before it are done, without a hand-over between threads; asynchronous
// ones run on a thread that the first of them starts. Thread-safe.
class Worker {
 public:
  // The rank that errors of its thread name; size 0: none.
  explicit Worker(int rank = 0, int size = 0) : rank_(rank), size_(size) {}
  // Operations that have not begun fail with PeerLost: the peers may be gone.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Throws what the operation throws.
  void run_now(const std::function<void()>& operation);

  std::shared_ptr<Work> run_later(std::function<void()> operation);

  // Begins no more operations. Waits for the one under way; returns false if it
  // has not ended by the deadline.
  bool close(Deadline deadline);

 private:
  using Item = std::pair<std::shared_ptr<Work>, std::function<void()>>;

  void loop();

  const int rank_;
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Item> waiting_;
  bool busy_ = false; // an operation is running
  bool stop_ = false;
  std::thread thread_; // started by the first run_later()
};

} // namespace argosy::comm
