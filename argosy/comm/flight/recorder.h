#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "argosy/comm/flight/record.h"
#include "argosy/comm/flight/tick_clock.h"

namespace argosy::comm::flight {

// Counts what a rank issues in one group. Thread-safe.
class GroupLog {
 public:
  GroupLog(int id, std::vector<int> ranks);

  int id() const { return id_; }

  // The number of this call among its kind.
  std::uint64_t next(const Call& call);

  // True once.
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
  std::vector<Messages> messages_; // by place in ranks_
};

// Remembers the last operations of a rank, and all that are under way. Noting
// one takes some 10 ns, allocates nothing unless it fails, and waits for
// nobody. Thread-safe.
class Recorder {
 public:
  static constexpr std::size_t kCapacity = 1024;

  std::shared_ptr<GroupLog> add_group(int id, std::vector<int> ranks);

  // Where an operation is noted. Its place is its own until it has ended.
  struct Ticket {
    std::size_t slot = kCapacity; // kCapacity: not noted, too many under way
  };

  Ticket issue(GroupLog& group, const Call& call);
  void start(Ticket ticket);
  void complete(Ticket ticket);
  void fail(Ticket ticket, const std::string& error);

  // The groups, the operations and the time; the rest is the caller's.
  Record snapshot() const;

 private:
  static constexpr std::size_t kMostGroups = 1024;
  static constexpr std::size_t kMostTries = 64;

  struct Slot {
    // Held by who fills the slot or reads it. The states after Issued are
    // noted without it: nobody fills a slot whose operation is under way.
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

  Operation operation_in(const Slot& slot, const TickClock::Reading& at) const;
  void end(Slot& slot, State state);

  const TickClock clock_;
  std::atomic<std::uint64_t> next_{0};
  mutable std::array<Slot, kCapacity> slots_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<GroupLog>> groups_; // guarded by mutex_
};

} // namespace argosy::comm::flight
