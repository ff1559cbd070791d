#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "argosy/comm/memory/layout.h"
#include "argosy/comm/memory/wait.h"
#include "argosy/comm/op_kind.h"
#include "argosy/common/deadline.h"

namespace argosy::comm::memory {

struct TeamSetup {
  std::string name; // of the group, for messages
  int rank = 0;
  std::vector<Region*> regions; // of all ranks, as this rank sees them
  // Whether the addresses of one rank mean the same to the others: threads.
  bool one_address_space = false;
  // The process of each rank, when all can fetch from all; else empty.
  std::vector<pid_t> processes;
  // The ranks that are known to be dead; asked while waiting.
  std::function<std::vector<int>()> dead_ranks;
};

// The ranks of a group that share memory, seen from one of them: entering
// operations together, and rounds of one operation.
//
// Used by one thread at a time. Every wait throws TimeoutError at the deadline,
// PeerLost when a rank is dead or the group was aborted; after either, all
// further operations throw.
class Team {
 public:
  explicit Team(TeamSetup setup);

  int rank() const { return setup_.rank; }
  int size() const { return static_cast<int>(setup_.regions.size()); }
  bool one_address_space() const { return setup_.one_address_space; }

  // Whether fetch() works between all ranks.
  bool can_fetch() const {
    return one_address_space() || !setup_.processes.empty();
  }

  // Copies from where `peer` said its data is. Throws PeerLost when it is gone.
  void fetch(int peer, void* to, std::uint64_t from, std::size_t bytes);

  // Begins the next operation: returns when all ranks have begun it, and
  // throws InvalidArgument, on all ranks, when they do not all do the same.
  void enter(const OpRecord& record, Deadline deadline);

  // What the ranks said on entering the current operation.
  const OpRecord& record_of(int rank) const;
  bool all_direct() const;

  // The window that small operations fill before they enter. Peers read it
  // after, as small_window(their rank).
  std::byte* next_small_window();
  const std::byte* small_window(int rank) const;

  // Rounds of large operations. Each operation numbers its rounds from 0, and
  // ends with end_rounds(how many it had).
  std::byte* window(int rank, int index) const;
  void publish_staged(std::uint32_t round);
  void publish_reduced(std::uint32_t round);
  void publish_consumed(std::uint32_t round);
  void await_staged(std::uint32_t round, Deadline deadline);
  void await_reduced(std::uint32_t round, Deadline deadline);
  void await_consumed(std::uint32_t round, Deadline deadline);
  void end_rounds(std::uint32_t num_rounds);

  // For disagreements that only the operation itself can see. All ranks must
  // find them alike.
  [[noreturn]] void disagree(const std::string& how);

  // Ends all waits of all ranks, now and later, with PeerLost.
  void abort(const std::string& reason);

  // Number of the current operation, from 1.
  std::uint32_t sequence() const { return sequence_; }

 private:
  using Member = Counter Control::*;

  Control& control(int rank) const { return setup_.regions[rank]->control; }
  Entry& entry(int rank) const;
  void await_entry(int peer, Deadline deadline);
  void publish_round(Member member, std::uint32_t round);
  void await_round(Member member, std::uint32_t round, Deadline deadline);
  void check_peers();
  void throw_if_failed();
  [[noreturn]] void throw_timeout(int peer, Deadline deadline);

  const TeamSetup setup_;
  WaitPolicy policy_;
  std::uint32_t sequence_ = 0;
  std::uint32_t rounds_before_ = 0; // of earlier operations
  std::string poison_;              // why no operation works any more
};

// "all_reduce of 1024 float32, sum"
std::string describe(const OpRecord& record);

} // namespace argosy::comm::memory
