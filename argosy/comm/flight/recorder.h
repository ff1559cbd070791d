#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/flight/record.h"
#include "argosy/comm/flight/tick_clock.h"
#include "argosy/comm/operation/current_operation.h"

namespace argosy::comm::flight {

// Counts what a rank issues in one group. Thread-safe.
class GroupLog {
 public:
  GroupLog(int id, std::vector<int> ranks);

  int id() const { return id_; }

  // The sequence number of this call: see Operation.
  std::uint64_t next(const Call& call);

  // True on the first call only.
  bool is_first_failure() { return !failed_.exchange(true); }

  GroupCounts counts() const;

 private:
  struct Messages {
    std::atomic<std::uint64_t> sent{0};
    std::atomic<std::uint64_t> received{0};
  };

  const int id_;
  const std::vector<int> ranks_;
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> collectives_{0};
  std::vector<Messages> messages_; // in the order of ranks_
};

// Remembers the last operations of a rank, and all pending ones. Recording one
// takes some 10 ns, allocates nothing unless the operation fails, and never
// blocks. Thread-safe.
class Recorder {
 public:
  static constexpr std::size_t kCapacity = 1024;

  std::shared_ptr<GroupLog> add_group(int id, std::vector<int> ranks);

  // Where an operation is recorded. No other takes the slot until it has ended.
  struct Ticket {
    std::size_t slot =
        kCapacity; // kCapacity: not recorded, too many are pending
  };

  Ticket issue(GroupLog& group, const Call& call);
  // Returns what it is, for the thread that carries it out.
  CurrentOperation start(Ticket ticket);
  void complete(Ticket ticket);
  void fail(Ticket ticket, const std::string& error);

  // Fills in the groups, the operations and the time; the caller adds the rest.
  Record snapshot() const;

  // The operation that has been carried out for the longest time, if one is.
  struct LongWait {
    Operation operation;
    std::chrono::microseconds time{0};
  };
  std::optional<LongWait> longest_wait() const;

 private:
  static constexpr std::size_t kMostGroups = 1024;
  static constexpr std::size_t kMostTries = 64;

  struct Slot {
    // Held by the thread that fills or reads the slot. The states after Issued
    // are set without it: no thread fills the slot of a pending operation.
    std::atomic<bool> held{false};
    std::atomic<bool> under_way{false};
    std::atomic<State> state{State::Completed};
    std::atomic<std::uint64_t> started{0}; // ticks
    std::atomic<std::uint64_t> ended{0};   // ticks
    // Guarded by `held`.
    bool used = false;
    std::uint64_t number = 0;
    int group = 0;
    std::uint64_t sequence = 0;
    std::uint64_t issued = 0; // ticks
    Call call;
    std::string error; // set before `state` becomes Failed
  };

  // Holds a slot against those who fill or read it.
  class Hold;

  Operation operation_in(const Slot& slot, const TickClock::Reading& at) const;
  void end(Slot& slot, State state);

  const TickClock clock_;
  std::atomic<std::uint64_t> next_{0};
  mutable std::array<Slot, kCapacity> slots_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<GroupLog>> groups_; // guarded by mutex_
};

} // namespace argosy::comm::flight
