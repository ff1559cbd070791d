#include "argosy/ps/table/page_feeder.h"

#include <sys/mman.h>

#include <algorithm>

#include "argosy/ps/table/pages.h"

namespace argosy::ps {

namespace {

// Kernels before 5.14 do not know this: then nothing happens ahead.
void back(std::byte* begin, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  ::madvise(begin, bytes, MADV_POPULATE_WRITE);
#else
  static_cast<void>(begin);
  static_cast<void>(bytes);
#endif
}

} // namespace

PageFeeder::~PageFeeder() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void PageFeeder::want(std::byte* begin, std::byte* end) {
  if (begin >= end) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    wanted_.push_back({begin, end});
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { run(); });
    }
  }
  changed_.notify_all();
}

PageFeeder::Pause PageFeeder::pause() {
  std::unique_lock lock(mutex_);
  ++pauses_; // it begins no further page
  changed_.wait(lock, [this] { return at_ == nullptr; });
  --pauses_;
  changed_.notify_all(); // it goes on when the lock is free
  return lock;
}

PageFeeder::Pause PageFeeder::try_pause() {
  std::unique_lock lock(mutex_);
  if (at_ != nullptr) {
    lock.unlock();
  }
  return lock;
}

PageFeeder::Pause PageFeeder::forget(
    const std::byte* begin, const std::byte* end) {
  Pause lock = pause();
  std::erase_if(wanted_, [&](const Range& range) {
    return begin <= range.begin && range.begin < end;
  });
  return lock;
}

void PageFeeder::await() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return wanted_.empty() && at_ == nullptr; });
}

void PageFeeder::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] {
      return stopping_ || (!wanted_.empty() && pauses_ == 0);
    });
    if (stopping_) {
      return;
    }
    Range& range = wanted_.front();
    std::byte* const page = range.begin;
    const auto bytes =
        std::min(kHugePage, static_cast<std::size_t>(range.end - page));
    range.begin += bytes;
    if (range.begin == range.end) {
      wanted_.pop_front();
    }
    at_ = page;
    lock.unlock();
    back(page, bytes);
    lock.lock();
    at_ = nullptr;
    changed_.notify_all();
  }
}

} // namespace argosy::ps
