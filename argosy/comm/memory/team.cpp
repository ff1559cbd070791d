#include "argosy/comm/memory/team.h"

#include <cstring>
#include <utility>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/memory/fetch.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::comm::memory {

namespace {

bool same_operation(const OpRecord& a, const OpRecord& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.op == b.op &&
      a.root == b.root && a.count == b.count && a.detail == b.detail;
}

} // namespace

std::string describe(const OpRecord& record) {
  const auto kind = static_cast<OpKind>(record.kind);
  std::string text = to_string(kind);
  if (kind != OpKind::Barrier) {
    text += str(
        " of ", record.count, " ", to_string(static_cast<DType>(record.dtype)));
  }
  if (reduces(kind)) {
    text += str(", ", to_string(static_cast<ReduceOp>(record.op)));
  }
  if (record.root >= 0) {
    text += str(", root ", record.root);
  }
  return text;
}

Team::Team(TeamSetup setup)
    : setup_(std::move(setup)),
      policy_(WaitPolicy::for_ranks(static_cast<int>(setup_.regions.size()))) {
  policy_.check = [this] { check_peers(); };
}

Entry& Team::entry(int rank) const {
  return control(rank).entries[sequence_ % 2];
}

const OpRecord& Team::record_of(int rank) const {
  return entry(rank).record;
}

void Team::enter(const OpRecord& record, Deadline deadline) {
  if (!poison_.empty()) {
    throw PeerLost(poison_);
  }
  ++sequence_;
  Entry& own = entry(rank());
  own.record = record;
  publish(own.sequence, own.sleepers, sequence_);
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    await_entry(peer, deadline);
    if (!same_operation(record, record_of(peer))) {
      disagree(
          str("rank ",
              rank(),
              " calls ",
              describe(record),
              ", rank ",
              peer,
              " calls ",
              describe(record_of(peer))));
    }
  }
}

void Team::await_entry(int peer, Deadline deadline) {
  Entry& theirs = entry(peer);
  if (!wait_for(
          theirs.sequence, theirs.sleepers, sequence_, policy_, deadline)) {
    throw_timeout(peer, deadline);
  }
}

bool Team::all_direct() const {
  for (int peer = 0; peer < size(); ++peer) {
    if (record_of(peer).direct == 0) {
      return false;
    }
  }
  return true;
}

std::byte* Team::next_small_window() {
  return setup_.regions[rank()]->windows[(sequence_ + 1) % 2];
}

const std::byte* Team::small_window(int rank) const {
  return setup_.regions[rank]->windows[sequence_ % 2];
}

std::byte* Team::window(int rank, int index) const {
  return setup_.regions[rank]->windows[index];
}

void Team::publish_round(Member member, std::uint32_t round) {
  Counter& counter = control(rank()).*member;
  publish(counter.value, counter.sleepers, rounds_before_ + round + 1);
}

void Team::await_round(Member member, std::uint32_t round, Deadline deadline) {
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    Counter& counter = control(peer).*member;
    if (!wait_for(
            counter.value,
            counter.sleepers,
            rounds_before_ + round + 1,
            policy_,
            deadline)) {
      throw_timeout(peer, deadline);
    }
  }
}

void Team::publish_staged(std::uint32_t round) {
  publish_round(&Control::staged, round);
}
void Team::publish_reduced(std::uint32_t round) {
  publish_round(&Control::reduced, round);
}
void Team::publish_consumed(std::uint32_t round) {
  publish_round(&Control::consumed, round);
}
void Team::await_staged(std::uint32_t round, Deadline deadline) {
  await_round(&Control::staged, round, deadline);
}
void Team::await_reduced(std::uint32_t round, Deadline deadline) {
  await_round(&Control::reduced, round, deadline);
}
void Team::await_consumed(std::uint32_t round, Deadline deadline) {
  await_round(&Control::consumed, round, deadline);
}
void Team::end_rounds(std::uint32_t num_rounds) {
  rounds_before_ += num_rounds;
}

void Team::fetch(int peer, void* to, std::uint64_t from, std::size_t bytes) {
  if (one_address_space()) {
    copy(to, reinterpret_cast<const void*>(from), bytes, true);
    return;
  }
  const pid_t process = setup_.processes[static_cast<std::size_t>(peer)];
  if (!fetch_from(process, to, from, bytes)) {
    const std::string reason =
        with_errno(str("memory of rank ", peer, " cannot be read"));
    check_peers(); // says so if the peer is dead
    poison_ = str("[comm] group ", setup_.name, ": ", reason);
    throw PeerLost(poison_);
  }
}

void Team::disagree(const std::string& how) {
  poison_ =
      str("[comm.",
          to_string(static_cast<OpKind>(record_of(rank()).kind)),
          "] ranks disagree about operation ",
          sequence_,
          " of group ",
          setup_.name,
          ": ",
          how);
  throw InvalidArgument(poison_);
}

void Team::throw_timeout(int peer, Deadline deadline) {
  poison_ =
      str("[comm.",
          to_string(static_cast<OpKind>(record_of(rank()).kind)),
          "] rank ",
          peer,
          " of group ",
          setup_.name,
          " did not come to operation ",
          sequence_,
          " (",
          describe(record_of(rank())),
          ") within ",
          deadline.limit_text());
  throw TimeoutError(poison_);
}

void Team::check_peers() {
  throw_if_failed();
  if (!setup_.dead_ranks) {
    return;
  }
  const std::vector<int> dead = setup_.dead_ranks();
  if (dead.empty()) {
    return;
  }
  poison_ =
      str("[comm.",
          to_string(static_cast<OpKind>(record_of(rank()).kind)),
          "] rank ",
          ranges_text(dead),
          " of group ",
          setup_.name,
          " died; operation ",
          sequence_,
          " was ",
          describe(record_of(rank())));
  throw PeerLost(poison_);
}

void Team::throw_if_failed() {
  for (int peer = 0; peer < size(); ++peer) {
    const Failure& failure = control(peer).failure;
    if (failure.set.load(std::memory_order_acquire) != 0) {
      poison_ =
          str("[comm] group ",
              setup_.name,
              " was aborted by rank ",
              peer,
              ": ",
              failure.text);
      throw PeerLost(poison_);
    }
  }
}

void Team::abort(const std::string& reason) {
  Failure& failure = control(rank()).failure;
  std::strncpy(failure.text, reason.c_str(), sizeof(failure.text) - 1);
  failure.set.store(1, std::memory_order_release);
  for (int peer = 0; peer < size(); ++peer) {
    Control& theirs = control(peer);
    for (Entry& each : theirs.entries) {
      wake(each.sequence);
    }
    for (Counter* counter :
         {&theirs.staged, &theirs.reduced, &theirs.consumed}) {
      wake(counter->value);
    }
  }
}

} // namespace argosy::comm::memory
