#include "argosy/launch/rendezvous.h"

#include <algorithm>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/launch/hang_share.h"
#include "argosy/launch/interrupt.h"
#include "argosy/launch/job_board.h"
#include "argosy/launch/meeting.h"
#include "argosy/launch/patient_calls.h"

namespace argosy::launch {

namespace {

using std::chrono::milliseconds;

class Rendezvous : public Membership, public JobWatch {
 public:
  Rendezvous(
      const RunOptions& options, RendezvousStore store, RendezvousNode node)
      : options_(options),
        store_(std::move(store)),
        node_(std::move(node)),
        board_(*store_.kv, options.rdzv.run_id),
        calls_(options.rdzv, node_.pause),
        meeting_(options, store_, node_, calls_, board_) {}

  NodeAssignment join() override;
  JobWatch* watch() override { return this; }
  HangShare* hang_share() override { return share_.get(); }
  void report(const Failure& failure) override;
  std::optional<Failure> root_cause() override;
  void leave() override;

  bool must_stop() override;
  bool all_done() override;

 private:
  template <typename Call>
  bool reaches_store(const Call& call);
  template <typename Call>
  bool try_last(const Call& call);
  void wait_for_readers();
  void open_attempt(const Deadline& deadline);
  void end_last_attempt(const Deadline& deadline);
  void report_vanished(const AttemptState& state);
  bool lose_store(const Error& error);
  bool is_silent_for_long();

  const RunOptions& options_;
  const RendezvousStore store_;
  const RendezvousNode node_;
  JobBoard board_;
  const PatientCalls calls_;
  Meeting meeting_;

  AttemptId attempt_;
  bool joined_ = false; // took part in an earlier attempt
  Attendance here_;     // at the current attempt
  bool told_done_ = false;
  std::optional<Deadline> silence_; // set while the store does not answer
  std::optional<Failure> lost_store_;
  std::optional<Failure> untold_; // our failure that no other node knows of
  std::unique_ptr<StoreHangShare> share_; // of the current attempt
  bool has_warned_ = false;               // of calls that fail while it leaves
};

NodeAssignment Rendezvous::join() {
  const Deadline deadline = Deadline::after(options_.rdzv.timeout);
  share_.reset(); // it refers to the lease
  open_attempt(deadline);
  try {
    here_ = meeting_.meet(attempt_, deadline);
    attempt_ = meeting_.attempt();
  } catch (const Error& error) {
    attempt_ = meeting_.attempt();
    here_ = {meeting_.arrival(), {}}; // leave() withdraws it
    if (store_.server != nullptr) {
      // The store ends with us, so do not let the others wait in vain.
      board_.refuse(attempt_, error.what(), Deadline::after(kStoreTry));
    }
    throw;
  }
  joined_ = true;
  told_done_ = false;
  share_ = std::make_unique<StoreHangShare>(HangRoom{
      .kv = *store_.kv,
      .asks = board_.hang_asks_key(attempt_),
      .answers = board_.hang_answers_prefix(attempt_),
      .node = here_.arrival,
      .num_nodes = static_cast<int>(here_.members.size()),
      .lease = meeting_.lease()});
  NodeAssignment assignment = assignment_of(here_.members, here_.arrival);
  assignment.run_id = options_.rdzv.run_id;
  assignment.attempt = attempt_.restarts;
  return assignment;
}

// After a failure, all nodes move to the next attempt; the first one writes it.
void Rendezvous::open_attempt(const Deadline& deadline) {
  if (joined_) {
    end_last_attempt(deadline);
  }
  lost_store_.reset();
  silence_.reset();
  attempt_ = calls_(deadline, [&](Deadline each) {
    if (joined_) {
      board_.move(attempt_, attempt_.next(), each);
    } else {
      board_.open(each);
    }
    return board_.current(each);
  });
  // An error left by nodes that are gone does not concern us.
  const AttemptState state = calls_(
      deadline, [&](Deadline each) { return board_.look(attempt_, each); });
  if (state.error && state.nodes.empty()) {
    attempt_ = calls_(deadline, [&](Deadline each) {
      board_.move(attempt_, attempt_.next_epoch(), each);
      return board_.current(each);
    });
  }
}

// An attempt has an ending before the job moves on: those that still run find
// it there, whatever we could not tell them before.
void Rendezvous::end_last_attempt(const Deadline& deadline) {
  const Failure failure = untold_.value_or(lost_store_.value_or(
      launcher_failure(host_name(), "left the attempt to join the next one")));
  const std::string ending = calls_(deadline, [&](Deadline each) {
    return board_.end(attempt_, to_json(failure), each);
  });
  untold_.reset();
  if (ending == JobBoard::kDone) {
    throw StoreError(str_format(
        "[launch.rendezvous] --rdzv-id {} at {}: the job has ended without "
        "this node, which could not reach the store",
        options_.rdzv.run_id,
        store_.url));
  }
}

bool Rendezvous::must_stop() {
  if (lost_store_) {
    return true;
  }
  try {
    const AttemptState state =
        board_.look(attempt_, Deadline::after(kShortStoreTry));
    if (state.ending) {
      return *state.ending != JobBoard::kDone;
    }
    silence_.reset();
    report_vanished(state);
    if (state.hang_asks) {
      share_->note_asks(*state.hang_asks);
    }
    return false; // the next poll finds what we reported
  } catch (const TimeoutError& error) {
    // The others rely on us as long as our lease is alive. Once our workers are
    // done, there is nothing left to stop: wait for the store while it may come
    // back.
    const bool is_lost =
        told_done_ ? is_silent_for_long() : !meeting_.lease()->alive();
    return is_lost && lose_store(error);
  } catch (const StoreError& error) {
    return lose_store(error);
  }
}

bool Rendezvous::is_silent_for_long() {
  if (!silence_) {
    silence_ = Deadline::after(calls_.longest_outage());
  }
  return silence_->expired();
}

bool Rendezvous::lose_store(const Error& error) {
  lost_store_ = launcher_failure(
      host_name(), str("lost the store at ", store_.url, ": ", error.what()));
  return true;
}

// Only nodes that neither live nor have finished count as lost. If two nodes
// report at the same time, one report wins. All nodes then read the same cause.
void Rendezvous::report_vanished(const AttemptState& state) {
  int node_rank = 0;
  for (const int arrival : order_nodes(here_.members)) {
    if (!state.nodes.contains(arrival) && !state.done.contains(arrival)) {
      const std::string& host = here_.members.at(arrival).node.host;
      const Failure failure = launcher_failure(
          host,
          str_format(
              "node {}: argosy run on {} is gone, or was silent for {}",
              node_rank,
              host,
              duration_text(options_.rdzv.keep_alive)));
      board_.end(attempt_, to_json(failure), Deadline::after(kShortStoreTry));
      return;
    }
    ++node_rank;
  }
}

// All nodes agree whether the job is done, because one key says so: a node may
// be taken for lost while it reports that its workers are done.
bool Rendezvous::all_done() {
  told_done_ = true;
  try {
    const auto each = [] { return Deadline::after(kShortStoreTry); };
    board_.tell_done(attempt_, here_.arrival, each());
    const AttemptState state = board_.look(attempt_, each());
    if (state.done.size() < here_.members.size() && !state.ending) {
      return false;
    }
    return board_.end(attempt_, JobBoard::kDone, each()) == JobBoard::kDone;
  } catch (const TimeoutError&) {
    return false; // asked again at the next poll
  } catch (const StoreError& error) {
    lose_store(error);
    return false;
  }
}

// Runs a store operation once the workers have ended; returns whether it
// succeeded. A store that was lost gets a last chance only.
template <typename Call>
bool Rendezvous::reaches_store(const Call& call) {
  const milliseconds patience =
      lost_store_ ? kShortStoreTry : 2 * options_.rdzv.keep_alive;
  try {
    calls_(Deadline::after(patience), call, std::min(patience, kStoreTry));
    return true;
  } catch (const TimeoutError& error) {
    return !lose_store(error);
  } catch (const StoreError& error) {
    return !lose_store(error);
  }
}

void Rendezvous::report(const Failure& failure) {
  const bool told = reaches_store(
      [&](Deadline each) { board_.end(attempt_, to_json(failure), each); });
  if (!told) {
    untold_ = failure; // join() tells it
  }
}

std::optional<Failure> Rendezvous::root_cause() {
  std::optional<std::string> ending;
  reaches_store(
      [&](Deadline each) { ending = board_.look(attempt_, each).ending; });
  if (ending && *ending != JobBoard::kDone) {
    return parse_failure(*ending);
  }
  return lost_store_;
}

// Makes a last call to the store, whose failure changes nothing; returns
// whether it succeeded.
template <typename Call>
bool Rendezvous::try_last(const Call& call) {
  try {
    call(Deadline::after(kStoreTry));
    return true;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    if (store_.server != nullptr && !has_warned_) {
      has_warned_ = true;
      log::warn("[launch.leave] {}", error.what());
    }
    return false;
  }
}

// Who serves the store stays until the other nodes have read why the job ends,
// also when calls of its own fail.
void Rendezvous::wait_for_readers() {
  const Deadline deadline =
      Deadline::after(2 * options_.rdzv.keep_alive + options_.grace);
  bool waits = store_.server != nullptr;
  while (waits && !deadline.expired()) {
    try_last([&](Deadline each) {
      auto nodes = board_.look(attempt_, each).nodes;
      nodes.erase(here_.arrival); // if it could not be withdrawn
      waits = !nodes.empty();
    });
    if (waits) {
      node_.pause(kStorePoll);
    }
  }
}

void Rendezvous::leave() {
  if (lost_store_) {
    return;
  }
  try {
    const bool was_withdrawn = try_last(
        [&](Deadline each) { board_.withdraw(attempt_, here_.arrival, each); });
    wait_for_readers();
    if (was_withdrawn && meeting_.lease() != nullptr) {
      meeting_.lease()->release(); // else it expires by itself
    }
  } catch (const Error&) {
    // A signal came: our lease expires by itself.
  }
}

} // namespace

std::unique_ptr<Membership> make_rendezvous(
    const RunOptions& options, RendezvousStore store, RendezvousNode node) {
  return std::make_unique<Rendezvous>(
      options, std::move(store), std::move(node));
}

} // namespace argosy::launch
