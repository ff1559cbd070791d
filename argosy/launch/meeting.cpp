#include "argosy/launch/meeting.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::launch {

using std::chrono::milliseconds;

Meeting::Meeting(
    const RunOptions& options,
    const RendezvousStore& store,
    const RendezvousNode& node,
    const PatientCalls& calls,
    JobBoard& board)
    : options_(options),
      store_(store),
      node_(node),
      calls_(calls),
      board_(board) {}

// An arrival lives as long as one lease. A launcher that was stopped for longer
// needs a new lease and arrives anew: in an attempt that went on without it, it
// must not come back to life. Nor may an earlier arrival at the same attempt,
// which a slow store writes down after all: the node would be there twice.
void Meeting::arrive(const Deadline& deadline) {
  last_call_.reset();
  conflict_until_.reset();
  calls_(deadline, [&](Deadline each) {
    if (lease_ == nullptr || !lease_->alive() || leased_for_ == attempt_) {
      lease_.reset();
      lease_ = store_.kv->grant(options_.rdzv.keep_alive, each);
      leased_for_.reset();
    }
    arrival_ = board_.arrive(attempt_, each);
  });
  leased_for_ = attempt_;
  const std::string record = to_json(node_.describe());
  calls_(deadline, [&](Deadline each) {
    if (lease_->alive()) {
      board_.publish(attempt_, arrival_, record, *lease_, each);
    }
    // Else meet() finds that we are not there, and we arrive again.
  });
}

Attendance Meeting::meet(const AttemptId& attempt, const Deadline& deadline) {
  attempt_ = attempt;
  turned_away_.reset();
  notice_ = WaitNotice();
  arrive(deadline);
  while (true) {
    // Polling works with any store, and lets signals through. The order
    // matters: a list that was read while its attempt was current cannot be of
    // an attempt that the others have left without an ending.
    const AttemptState state = calls_(
        deadline, [&](Deadline each) { return board_.look(attempt_, each); });
    const AttemptId current =
        calls_(deadline, [&](Deadline each) { return board_.current(each); });
    if (current != attempt_) {
      move_to(current, deadline); // whatever this attempt was, it is over
    } else if (!state.closed) {
      gather(state, deadline);
    } else if (auto members = accept_closed(state, deadline)) {
      return {arrival_, std::move(*members)};
    }
    node_.pause(kStorePoll);
  }
}

void Meeting::move_to(const AttemptId& attempt, const Deadline& deadline) {
  try {
    board_.withdraw(attempt_, arrival_, deadline.earlier(kShortStoreTry));
  } catch (const Error&) {
    // Nobody looks there any more.
  }
  attempt_ = attempt;
  arrive(deadline);
}

// While the list is open.
void Meeting::gather(const AttemptState& state, const Deadline& deadline) {
  if (state.error) {
    throw_refused(*state.error);
  }
  if (!state.nodes.contains(arrival_)) {
    arrive(deadline); // our lease has expired, and our key with it
    return;
  }
  Arrivals here;
  for (const auto& [arrival, record] : state.nodes) {
    here[arrival] = parse_node_record(record);
  }
  if (has_conflict(here, deadline) || try_close(here, deadline)) {
    return;
  }
  if (deadline.expired()) {
    throw TimeoutError(str_format(
        "[launch.rendezvous] --rdzv-id {} at {}: {}",
        options_.rdzv.run_id,
        store_.url,
        missing_nodes_text(here, options_.min_nodes, deadline.limit_text())));
  }
  tell_who_is_missing(here, deadline);
}

void Meeting::tell_who_is_missing(
    const Arrivals& here, const Deadline& deadline) {
  const auto waited = node_.tell ? notice_.due() : std::nullopt;
  if (waited) {
    node_.tell(str_format(
        "[launch.rendezvous] --rdzv-id {} at {}: {}; waiting up to {}",
        options_.rdzv.run_id,
        store_.url,
        missing_nodes_text(here, options_.min_nodes, duration_text(*waited)),
        deadline.limit_text()));
  }
}

void Meeting::throw_refused(const std::string& reason) const {
  throw InvalidArgument(
      str("[launch.rendezvous] --rdzv-id ",
          options_.rdzv.run_id,
          " at ",
          store_.url,
          ": ",
          reason));
}

// A launcher that was killed and started again is there twice until the lease
// of the dead one ends; until then it has no conflict with itself.
bool Meeting::has_conflict(const Arrivals& here, const Deadline& deadline) {
  const auto conflict = find_conflict(here);
  if (!conflict) {
    conflict_until_.reset();
    return false;
  }
  if (!conflict_until_) {
    conflict_until_ = Deadline::after(
        may_be_restarted(here) ? options_.rdzv.keep_alive + 2 * kStorePoll
                               : milliseconds(0));
  }
  if (conflict_until_->expired()) {
    calls_(deadline, [&](Deadline each) {
      board_.refuse(attempt_, *conflict, each);
    });
    throw_refused(*conflict);
  }
  return true;
}

// If enough nodes are present, closes the list; returns whether it is closed,
// by this node or another.
bool Meeting::try_close(const Arrivals& here, const Deadline& deadline) {
  const int count = static_cast<int>(here.size());
  if (count < options_.min_nodes) {
    last_call_.reset();
    return false;
  }
  if (count < options_.max_nodes) {
    // Fewer than the maximum: wait a while for more nodes.
    if (!last_call_) {
      last_call_ = Deadline::after(options_.rdzv.last_call);
    }
    if (!last_call_->expired()) {
      return false;
    }
  }
  const Arrivals taken(
      here.begin(),
      std::next(here.begin(), std::min(count, options_.max_nodes)));
  // Several nodes may close at the same time with different lists. The first
  // one wins; accept_closed() reads it.
  calls_(deadline, [&](Deadline each) {
    board_.close(attempt_, to_json(taken), each);
  });
  return true;
}

// Returns the nodes of the closed attempt if it includes us, alive. If it does
// not, waits for the next one.
std::optional<Arrivals> Meeting::accept_closed(
    const AttemptState& state, const Deadline& deadline) {
  Arrivals members = parse_arrivals(*state.closed);
  if (members.contains(arrival_) && state.nodes.contains(arrival_)) {
    return members;
  }
  const bool is_over = std::ranges::none_of(members, [&](const auto& member) {
    return state.nodes.contains(member.first);
  });
  if (is_over) {
    // All members are gone: the job of that id is over, and a new one starts.
    calls_(deadline, [&](Deadline each) {
      board_.move(attempt_, attempt_.next_epoch(), each);
    });
  } else {
    check_turned_away();
  }
  return std::nullopt;
}

// A complete job may still lose a node and take us instead, unless it has no
// restarts left.
void Meeting::check_turned_away() {
  if (!turned_away_) {
    turned_away_ = Deadline::after(
        options_.max_restarts > 0 ? options_.rdzv.timeout
                                  : 2 * options_.rdzv.keep_alive);
  }
  if (turned_away_->expired()) {
    throw_refused("this job has all its nodes already");
  }
}

} // namespace argosy::launch
