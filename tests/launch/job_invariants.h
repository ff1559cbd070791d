#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "argosy/launch/job_board.h"
#include "argosy/launch/node_record.h"
#include "argosy/launch/options.h"
#include "argosy/testing/simulation/simulated_store.h"

namespace argosy::testing {

// What must hold at every step of a simulated job, whatever happens to its
// nodes and messages. Every method throws Violation when it does not.
//
// To add an invariant of the store's content, extend look_at_store(); of what
// launchers do, let JobSimulation say it, as joined() and stopped() do.
class JobInvariants {
 public:
  JobInvariants(
      Simulation& simulation,
      SimulatedStore& store,
      const launch::RunOptions& options)
      : simulation_(simulation), store_(store), options_(options) {}

  // After every event.
  void check();

  // A launcher has its assignment and starts its workers. `port` is that of
  // the record with which it arrived last.
  void joined(
      int node, const launch::NodeAssignment& assignment, std::uint16_t port);
  // Its workers end, one way or another.
  void stopped(int node);
  // A worker failed by itself; all workers of the node succeeded.
  void worker_failed(int node);
  void workers_succeeded(int node);
  // Why the attempt of the node ended, as its launcher sees it.
  void cause_is(int node, const std::string& cause);
  // The launcher ends with success.
  void completed(int node);

  // Whether an attempt has ended well, and whether the node was in it.
  bool is_done() const { return done_.has_value(); }
  bool was_in_done(int node) const;
  int num_attempts() const { return static_cast<int>(attempts_.size()); }

 private:
  // By what the store says; written once.
  struct Attempt {
    std::optional<std::string> closed{};
    std::optional<std::string> ending{};
    launch::Arrivals members{};
    // By what launchers do.
    std::map<int, int> nodes{};      // by node rank: who took it
    std::map<int, int> arrivals{};   // by simulated node: its arrival
    std::map<int, bool> succeeded{}; // by simulated node
    bool has_failed = false;
    std::optional<std::string> cause{};
  };
  struct Acting {
    launch::AttemptId attempt;
    Timeline::TimePoint lapsed{}; // since when its lease is gone; 0: it lives
  };

  std::optional<std::string> value(
      const launch::AttemptId& attempt, const std::string& name);
  void look_at_store();
  void check_move(const launch::AttemptId& from, const launch::AttemptId& to);
  void check_written_once(const launch::AttemptId& id, Attempt& attempt);
  void check_closed(const launch::AttemptId& id, Attempt& attempt);
  void check_ending(const launch::AttemptId& id, const Attempt& attempt);
  void check_acting(int node, Acting& acting);
  std::chrono::nanoseconds longest_acting(const Attempt& attempt) const;
  const launch::AttemptId& attempt_of(int node) const;

  Simulation& simulation_;
  SimulatedStore& store_;
  const launch::RunOptions& options_;
  std::uint64_t num_changes_ = 0;
  Timeline::TimePoint next_look_{};
  std::optional<launch::AttemptId> current_;
  std::map<launch::AttemptId, Attempt> attempts_;
  std::map<int, Acting> acting_;                // by simulated node
  std::map<int, launch::AttemptId> attempt_of_; // by simulated node: its last
  std::optional<launch::AttemptId> done_;
};

} // namespace argosy::testing
