#include "tests/launch/job_invariants.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::testing {

using launch::AttemptId;
using launch::JobBoard;
using std::chrono::milliseconds;

std::optional<std::string> JobInvariants::value(
    const AttemptId& attempt, const std::string& name) {
  return store_.table().get(
      str("argosy/", options_.rdzv.run_id, "/", attempt.text(), "/", name));
}

void JobInvariants::check() {
  store_.check_leases();
  const bool is_time = simulation_.clock() >= next_look_;
  if (store_.num_changes() == num_changes_ && !is_time) {
    return;
  }
  num_changes_ = store_.num_changes();
  next_look_ = simulation_.clock() + milliseconds(100);
  look_at_store();
  for (auto& [node, acting] : acting_) {
    check_acting(node, acting);
  }
}

void JobInvariants::look_at_store() {
  const auto text =
      store_.table().get(str("argosy/", options_.rdzv.run_id, "/attempt"));
  if (!text) {
    require(!current_, "the job's attempt is gone");
    return;
  }
  const AttemptId now = AttemptId::parse(*text);
  if (current_ && now != *current_) {
    // What happened to the old one until now.
    check_written_once(*current_, attempts_[*current_]);
    check_move(*current_, now);
  }
  current_ = now;
  check_written_once(now, attempts_[now]);
}

// One holder of the job's number: it only grows, and an attempt is over before
// the next one begins.
void JobInvariants::check_move(const AttemptId& from, const AttemptId& to) {
  const Attempt& old = attempts_[from];
  require(to > from, "the job went back from ", from.text(), " to ", to.text());
  if (to == from.next()) {
    require(
        old.ending && *old.ending != JobBoard::kDone,
        "attempt ",
        to.text(),
        " begins, but ",
        from.text(),
        old.ending ? " is done" : " has no ending");
    return;
  }
  require(
      to == from.next_epoch(),
      "the job jumps from ",
      from.text(),
      " to ",
      to.text());
  for (const auto& [arrival, record] : old.members) {
    require(
        !value(from, str("node/", arrival)),
        "a new epoch begins while arrival ",
        arrival,
        " of ",
        from.text(),
        " lives");
  }
}

void JobInvariants::check_written_once(const AttemptId& id, Attempt& attempt) {
  const auto closed = value(id, "closed");
  if (closed != attempt.closed) {
    require(!attempt.closed, "the list of ", id.text(), " changed");
    attempt.closed = closed;
    check_closed(id, attempt);
  }
  const auto ending = value(id, "ending");
  if (ending != attempt.ending) {
    require(!attempt.ending, "the ending of ", id.text(), " changed");
    attempt.ending = ending;
    simulation_.note(
        "attempt ",
        id.text(),
        " ends: ",
        *ending == JobBoard::kDone ? *ending
                                   : launch::parse_failure(*ending).message);
    check_ending(id, attempt);
  }
}

void JobInvariants::check_closed(const AttemptId& id, Attempt& attempt) {
  attempt.members = launch::parse_arrivals(*attempt.closed);
  const int size = static_cast<int>(attempt.members.size());
  simulation_.note("attempt ", id.text(), " has ", size, " nodes");
  require(
      size >= options_.min_nodes && size <= options_.max_nodes,
      "attempt ",
      id.text(),
      " has ",
      size,
      " nodes");
}

// No failure is lost: an attempt that is done had none, and all its nodes have
// succeeded.
void JobInvariants::check_ending(const AttemptId& id, const Attempt& attempt) {
  if (*attempt.ending != JobBoard::kDone) {
    return;
  }
  require(!attempt.has_failed, "attempt ", id.text(), " is done, but failed");
  require(
      attempt.succeeded.size() == attempt.members.size(),
      "attempt ",
      id.text(),
      " is done, but only ",
      attempt.succeeded.size(),
      " nodes succeeded");
  done_ = id;
}

// A node whose lease has lapsed ends its workers, because the others go on
// without it; a node in an attempt that has ended does the same. Both take a
// few polls.
void JobInvariants::check_acting(int node, Acting& acting) {
  const Attempt& attempt = attempts_[acting.attempt];
  const auto arrival = attempt.arrivals.find(node);
  const bool holds =
      value(acting.attempt, str("node/", arrival->second)).has_value();
  const auto now = simulation_.clock();
  if (simulation_.has_crashed(node) || (holds && !attempt.ending)) {
    acting.lapsed = {};
    return;
  }
  if (acting.lapsed == Timeline::TimePoint{}) {
    acting.lapsed = now;
    return;
  }
  // A node that is stopped cannot know.
  acting.lapsed = std::max(acting.lapsed, simulation_.paused_until(node));
  // Also of a node that is cut off: its own clock tells it.
  require(
      now - acting.lapsed <= longest_acting(attempt),
      "node ",
      node,
      " acts in ",
      acting.attempt.text(),
      attempt.ending ? ", which has ended" : " without a lease");
}

// A look at the store, a report, and another look, of a second each at most.
// Who cannot reach the store to see that the attempt has ended relies on its
// lease until that has lapsed.
std::chrono::nanoseconds JobInvariants::longest_acting(
    const Attempt& attempt) const {
  return milliseconds(3'500) + 3 * options_.monitor_interval +
      (attempt.ending ? options_.rdzv.keep_alive : milliseconds(0));
}

void JobInvariants::joined(
    int node, const launch::NodeAssignment& assignment, std::uint16_t port) {
  simulation_.note("joined: ", assignment);
  look_at_store();
  // The list that the assignment comes from. Ports are unique to an arrival.
  for (auto& [id, attempt] : attempts_) {
    for (const auto& [arrival, record] : attempt.members) {
      if (record.node.ports.at(0) != port) {
        continue;
      }
      launch::NodeAssignment expected =
          launch::assignment_of(attempt.members, arrival);
      expected.run_id = options_.rdzv.run_id;
      expected.attempt = id.restarts;
      require(
          assignment == expected,
          "node ",
          node,
          " has another assignment than attempt ",
          id.text());
      const auto [owner, is_new] =
          attempt.nodes.emplace(assignment.node_rank, node);
      require(
          is_new || owner->second == node,
          "nodes ",
          owner->second,
          " and ",
          node,
          " both have node rank ",
          assignment.node_rank,
          " in ",
          id.text());
      require(
          assignment.attempt <= options_.max_restarts,
          "restart ",
          assignment.attempt,
          " of at most ",
          options_.max_restarts);
      attempt.arrivals[node] = arrival;
      attempt_of_[node] = id;
      acting_[node] = {.attempt = id};
      return;
    }
  }
  throw Violation(str("node ", node, " joined an attempt without a list"));
}

const AttemptId& JobInvariants::attempt_of(int node) const {
  return attempt_of_.at(node);
}

void JobInvariants::stopped(int node) {
  acting_.erase(node);
}

void JobInvariants::worker_failed(int node) {
  simulation_.note("a worker fails");
  Attempt& attempt = attempts_[attempt_of(node)];
  attempt.has_failed = true;
  require(
      attempt.ending != JobBoard::kDone,
      "a worker runs although its attempt is done");
}

void JobInvariants::workers_succeeded(int node) {
  simulation_.note("the workers succeed");
  attempts_[attempt_of(node)].succeeded[node] = true;
  stopped(node);
}

// The others may read it later, after the store has lost its keys; they never
// read another.
void JobInvariants::cause_is(int node, const std::string& cause) {
  simulation_.note("cause: ", cause);
  if (cause.starts_with("lost the store")) {
    return; // its own; the others have theirs
  }
  Attempt& attempt = attempts_[attempt_of(node)];
  require(
      !attempt.cause || *attempt.cause == cause,
      "two causes of one ending: ",
      attempt.cause.value_or(""),
      " and ",
      cause);
  attempt.cause = cause;
}

void JobInvariants::completed(int node) {
  simulation_.note("completed");
  look_at_store();
  const AttemptId& id = attempt_of(node);
  require(
      attempts_[id].ending == JobBoard::kDone,
      "node ",
      node,
      " takes attempt ",
      id.text(),
      " for done");
}

bool JobInvariants::was_in_done(int node) const {
  const auto found = attempt_of_.find(node);
  return done_ && found != attempt_of_.end() && found->second == *done_;
}

} // namespace argosy::testing
