#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "argosy/comm/memory/layout.h"
#include "argosy/comm/memory/wait.h"
#include "argosy/common/deadline.h"
#include "argosy/heap/heap_view.h"

namespace argosy::comm::memory {

class Liveness;

struct PeersSetup {
  std::string name; // of the group, for messages
  int rank = 0;
  // Of the ranks in errors: their global ranks; empty: 0, 1, ...
  std::vector<int> numbers;
  std::vector<Region*> regions; // of all ranks, at addresses of this process
  // Whether all ranks are threads of one process.
  bool one_address_space = false;
  // The process of each rank, if all can fetch from all; else empty.
  std::vector<pid_t> processes;
  // Whether that is faster than windows.
  bool fetch_faster = true;
  // The heap of each rank's process, if all map those of all; else empty.
  std::vector<std::shared_ptr<const heap::HeapView>> heaps;
  // Asked while waiting; null: nobody dies alone.
  const Liveness* liveness = nullptr;
  // How long a rank that has failed waits for one that is stopped inside a
  // transfer; see Peers::fence().
  std::chrono::milliseconds longest_guard{5000};
};

// The ranks of a group that share memory, seen from one of them: they wait for
// each other and fail together. Thread-safe.
//
// The first failure of any rank becomes the group's: each rank throws an error
// of the same class and text, where it waits or in its next operation. All
// further operations throw PeerLost.
class Peers {
 public:
  explicit Peers(PeersSetup setup);

  int rank() const { return setup_.rank; }
  int size() const { return static_cast<int>(setup_.regions.size()); }
  const std::string& name() const { return setup_.name; }
  // The number of a rank in errors.
  int number(int rank) const {
    return setup_.numbers.empty()
        ? rank
        : setup_.numbers[static_cast<std::size_t>(rank)];
  }
  Region& region(int rank) const {
    return *setup_.regions[static_cast<std::size_t>(rank)];
  }
  Control& control(int rank) const { return region(rank).control; }
  bool one_address_space() const { return setup_.one_address_space; }

  // Whether fetch() works between all ranks.
  bool can_fetch() const {
    return one_address_space() || !setup_.processes.empty();
  }

  // Whether fetch() takes less time than two copies, to a window and from it.
  // The same on all ranks.
  bool fetches_faster() const {
    return one_address_space() || setup_.fetch_faster;
  }

  // Whether a buffer of this rank lies in memory that all ranks map.
  bool in_shared_heap(const void* data) const;
  // The address in this process of a buffer in the heap of `peer`.
  std::byte* local_address(int peer, BufferRef address) const {
    return setup_.heaps[static_cast<std::size_t>(peer)]->at(address);
  }

  // To be called at the begin of any operation. Throws if the group has failed.
  void check_usable();

  // Waits until `peer` has raised a signal to `target`; peer -1 is any. `doing`
  // describes the operation in errors.
  void await(
      Signal& signal,
      std::uint32_t target,
      int peer,
      const OpRecord& doing,
      Deadline deadline);

  // While it lives, this rank may read and write the buffers of others: if an
  // operation fails on their side, it returns, and so gives up its buffer, only
  // after the guard is gone. The constructor throws when the group has failed.
  class BufferGuard {
   public:
    explicit BufferGuard(Peers& peers);
    ~BufferGuard();
    BufferGuard(const BufferGuard&) = delete;
    BufferGuard& operator=(const BufferGuard&) = delete;

   private:
    std::atomic<std::uint32_t>& guards_;
  };

  // Calls act(begin, count) for consecutive parts of `bytes`, with a guard for
  // each. Short guards bound the wait of a rank that has failed; one for each
  // cache line would cost more.
  template <typename Act>
  void guarded(std::size_t bytes, const Act& act) {
    for (std::size_t begin = 0; begin < bytes; begin += kGuardedBytes) {
      const BufferGuard guard(*this);
      act(begin, std::min(kGuardedBytes, bytes - begin));
    }
  }

  // Copy from and to a buffer that `peer` refers to: in its heap, or anywhere
  // if can_fetch().
  void fetch(
      int peer,
      void* to,
      BufferRef from,
      std::size_t bytes,
      const OpRecord& doing);
  void store(
      int peer,
      BufferRef to,
      const void* from,
      std::size_t bytes,
      const OpRecord& doing);

  // Both end the operations of all ranks.
  [[noreturn]] void fail(FailureKind kind, const std::string& text);
  void abort(const std::string& reason);

 private:
  static constexpr std::size_t kGuardedBytes = std::size_t{4} << 20;

  std::atomic<std::uint32_t>& told_by() const { return control(0).told_by; }
  const Failure& failure() const;
  bool has_failed() const;
  bool is_lost(int peer) const;
  bool is_hopeless(int peer, const OpRecord& doing) const;
  bool tell(FailureKind kind, const std::string& text);
  void await_unguarded() const;
  void await_unguarded(int peer) const;
  bool fence(int peer) const;
  int culprit(int peer) const;
  std::string ending_of(int peer) const;
  [[noreturn]] void throw_failure();
  [[noreturn]] void throw_lost(int peer, const OpRecord& doing);
  [[noreturn]] void throw_unreachable(int peer, const OpRecord& doing);
  pid_t process(int peer) const {
    return setup_.processes[static_cast<std::size_t>(peer)];
  }

  const PeersSetup setup_;
  const WaitPolicy policy_;
  std::mutex tell_mutex_;
  std::atomic<bool> told_{false}; // this rank has thrown the group's failure
};

} // namespace argosy::comm::memory
