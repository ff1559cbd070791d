#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "argosy/store/kv.h"

namespace argosy::launch {

// Attempts of a job follow each other; their numbers never repeat. A new job
// with the id of one that is over opens a new epoch.
struct AttemptId {
  int epoch = 0;
  int restarts = 0;

  AttemptId next() const { return {epoch, restarts + 1}; }
  AttemptId next_epoch() const { return {epoch + 1, 0}; }

  std::string text() const; // "<epoch>.<restarts>"
  // Throws StoreError.
  static AttemptId parse(const std::string& text);

  auto operator<=>(const AttemptId&) const = default;
};

// What the store holds of an attempt, all at one moment.
struct AttemptState {
  std::map<int, std::string> nodes; // by arrival: those that live
  std::set<int> done;               // by arrival: whose workers succeeded
  std::optional<std::string> closed{};
  std::optional<std::string> error{};
  std::optional<std::string> ending{};
  std::optional<std::string> hang_asks{};
};

// The keys under which the launchers of a job meet, all under
// argosy/<run id>/:
//   attempt        the current AttemptId
// For each attempt, under its id:
//   arrivals       counter of nodes that have come
//   node/<arrival> the record of a node, with a lease: it lives as long as its
//                  launcher
//   closed         the arrivals that form the attempt; written once
//   error          why the rendezvous is impossible
//   ending         how the attempt ended; written once: kDone, or the failure
//                  that was reported first
//   done/<arrival> set when that node's workers have succeeded
//   hang_asks      counter of asks for flight records
// And under hang/<attempt>/, apart because they are long:
//   <arrival>      the last ask that node has answered, and its records
//
// Each method is one call of the store. All can be repeated: a call that timed
// out may have been carried out, or may be later.
class JobBoard {
 public:
  // The ending of an attempt whose workers all succeeded.
  static constexpr char kDone[] = "done";

  JobBoard(store::Kv& kv, const std::string& run_id);

  // Opens the first attempt of the job, unless there is one.
  void open(Deadline deadline);
  AttemptId current(Deadline deadline);
  // Moves the job on to attempt `to`, unless it has moved on from `from`.
  void move(const AttemptId& from, const AttemptId& to, Deadline deadline);

  AttemptState look(const AttemptId& attempt, Deadline deadline);

  // Returns the number of the arrival.
  int arrive(const AttemptId& attempt, Deadline deadline);
  void publish(
      const AttemptId& attempt,
      int arrival,
      const std::string& record,
      const store::Lease& lease,
      Deadline deadline);
  void withdraw(const AttemptId& attempt, int arrival, Deadline deadline);

  // The first list stays.
  void close(
      const AttemptId& attempt, const std::string& list, Deadline deadline);
  void refuse(
      const AttemptId& attempt, const std::string& error, Deadline deadline);
  // The first ending stays. Returns it.
  std::string end(
      const AttemptId& attempt, const std::string& ending, Deadline deadline);
  void tell_done(const AttemptId& attempt, int arrival, Deadline deadline);

  std::string hang_asks_key(const AttemptId& attempt) const;
  std::string hang_answers_prefix(const AttemptId& attempt) const;

 private:
  std::string key(const AttemptId& attempt, std::string_view name) const;

  store::Kv& kv_;
  const std::string base_;
  const std::string attempt_key_;
};

} // namespace argosy::launch
