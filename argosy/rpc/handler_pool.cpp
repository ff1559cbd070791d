#include "argosy/rpc/handler_pool.h"

#include <limits>

namespace argosy::rpc {

namespace {

constexpr std::chrono::seconds kIdle(10); // how long a thread waits for a task

} // namespace

void HandlerPool::run(std::function<void()> task) {
  add(std::move(task), most_threads_);
}

void HandlerPool::run_at_once(std::function<void()> task) {
  add(std::move(task), std::numeric_limits<std::size_t>::max());
}

void HandlerPool::add(std::function<void()> task, std::size_t most_threads) {
  std::list<std::thread> ended;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      return;
    }
    ended.swap(ended_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() <= idle_) {
      changed_.notify_one();
    } else if (threads_.size() < most_threads) {
      const auto self = threads_.emplace(threads_.end());
      *self = std::thread([this, self] { work(self); });
    }
  }
  for (std::thread& thread : ended) {
    thread.join(); // it has left work() already
  }
}

void HandlerPool::work(std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (tasks_.empty()) {
      ++idle_;
      const bool woken = changed_.wait_for(
          lock, kIdle, [this] { return stopping_ || !tasks_.empty(); });
      --idle_;
      if (!woken) {
        ended_.splice(ended_.end(), threads_, self);
        return;
      }
      continue;
    }
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr; // what it holds must not live longer than it
    lock.lock();
  }
}

void HandlerPool::stop() {
  std::list<std::thread> threads;
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    threads.swap(threads_);
    threads.splice(threads.end(), ended_);
    dropped.swap(tasks_);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

std::size_t HandlerPool::num_threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

} // namespace argosy::rpc
