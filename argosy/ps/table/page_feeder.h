#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>

namespace argosy::ps {

// A thread that has the kernel back memory shortly before it is used. The first
// touch of a huge page takes the kernel a part of a millisecond, on some
// virtual machines several: too long for a thread that answers pulls. Whoever
// needs a page that is not there yet touches it himself, as without it.
// Thread-safe.
class PageFeeder {
 public:
  PageFeeder() = default;
  ~PageFeeder();

  // Backs [begin, end), aligned to huge pages, soon.
  void want(std::byte* begin, std::byte* end);

  // Nothing is under way when it returns, and as long as the lock is held.
  // Mapping and unmapping memory would wait for it in the kernel, each call
  // anew. The others of these methods may not be called meanwhile.
  using Pause = std::unique_lock<std::mutex>;
  Pause pause();
  Pause try_pause(); // empty if something is under way

  // Nothing of [begin, end) is wanted any more: the memory may be unmapped.
  Pause forget(const std::byte* begin, const std::byte* end);

  // Blocks until everything that was wanted is there.
  void await();

 private:
  struct Range {
    std::byte* begin;
    std::byte* end;
  };

  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Range> wanted_;
  const std::byte* at_ = nullptr; // the huge page that it backs now
  int pauses_ = 0;                // that wait for it
  bool stopping_ = false;
  std::thread thread_; // begins when something is wanted
};

} // namespace argosy::ps
