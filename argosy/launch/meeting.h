#pragma once

#include <memory>
#include <optional>
#include <string>

#include "argosy/common/deadline.h"
#include "argosy/common/wait_notice.h"
#include "argosy/launch/job_board.h"
#include "argosy/launch/node_record.h"
#include "argosy/launch/options.h"
#include "argosy/launch/patient_calls.h"
#include "argosy/launch/rendezvous.h"

namespace argosy::launch {

// The nodes of an attempt, and which of them this one is.
struct Attendance {
  int arrival = -1;
  Arrivals members;
};

// How the nodes of an attempt find each other: each arrives, waits until enough
// are there, and one of them closes the list. What the constructor is given
// must outlive it. Not installed.
class Meeting {
 public:
  Meeting(
      const RunOptions& options,
      const RendezvousStore& store,
      const RendezvousNode& node,
      const PatientCalls& calls,
      JobBoard& board);

  // Arrives at the attempt, or at a later one that the job has moved on to,
  // until a closed list has this node. Blocks. Throws TimeoutError at the
  // deadline, InvalidArgument when these nodes cannot form a job, StoreError.
  Attendance meet(const AttemptId& attempt, const Deadline& deadline);

  // Where and as what this node has arrived last; -1: not yet.
  const AttemptId& attempt() const { return attempt_; }
  int arrival() const { return arrival_; }
  // Of its arrival; null before the first one.
  store::Lease* lease() const { return lease_.get(); }

 private:
  void arrive(const Deadline& deadline);
  void move_to(const AttemptId& attempt, const Deadline& deadline);
  void gather(const AttemptState& state, const Deadline& deadline);
  void tell_who_is_missing(const Arrivals& here, const Deadline& deadline);
  bool has_conflict(const Arrivals& here, const Deadline& deadline);
  bool try_close(const Arrivals& here, const Deadline& deadline);
  std::optional<Arrivals> accept_closed(
      const AttemptState& state, const Deadline& deadline);
  void check_turned_away();
  [[noreturn]] void throw_refused(const std::string& reason) const;

  const RunOptions& options_;
  const RendezvousStore& store_;
  const RendezvousNode& node_;
  const PatientCalls& calls_;
  JobBoard& board_;

  AttemptId attempt_;
  int arrival_ = -1;
  std::unique_ptr<store::Lease> lease_;
  std::optional<AttemptId> leased_for_; // where it arrived last with that lease
  WaitNotice notice_;
  std::optional<Deadline> last_call_;
  std::optional<Deadline> conflict_until_;
  // Set while the attempt runs without us: how long to wait for its end.
  std::optional<Deadline> turned_away_;
};

} // namespace argosy::launch
