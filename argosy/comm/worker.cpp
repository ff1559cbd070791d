#include "argosy/comm/worker.h"

#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"

namespace argosy::comm {

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Worker::run_now(const std::function<void()>& operation) {
  {
    std::unique_lock lock(mutex_);
    // Behind all that was issued before, as other ranks run it in that order.
    changed_.wait(lock, [&] { return !busy_ && waiting_.empty(); });
    busy_ = true;
  }
  // Lets the next one go ahead also when the operation throws.
  struct Done {
    Worker& worker;
    ~Done() {
      const std::lock_guard lock(worker.mutex_);
      worker.busy_ = false;
      worker.changed_.notify_all();
    }
  } const done{*this};
  operation();
}

std::shared_ptr<Work> Worker::run_later(std::function<void()> operation) {
  auto work = std::make_shared<Work>();
  const std::lock_guard lock(mutex_);
  waiting_.emplace_back(work, std::move(operation));
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_all();
  return work;
}

bool Worker::close(Deadline deadline) {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  return changed_.wait_until(lock, deadline.time(), [&] { return !busy_; });
}

void Worker::loop() {
  set_rank_label(rank_, size_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !busy_ && (stop_ || !waiting_.empty()); });
    if (stop_) {
      break;
    }
    Item item = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    item.first->run(item.second);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
  // Somebody may wait for these: they must end.
  for (const Item& item : waiting_) {
    item.first->run([] {
      throw PeerLost("[comm] the group ended before this operation began");
    });
  }
}

} // namespace argosy::comm
