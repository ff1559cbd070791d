#include "argosy/comm/flight/recorder.h"

#include <algorithm>
#include <thread>

namespace argosy::comm::flight {

GroupLog::GroupLog(int id, std::vector<int> ranks)
    : id_(id), ranks_(std::move(ranks)), messages_(ranks_.size()) {}

std::uint64_t GroupLog::next(const Call& call) {
  if (!is_pairwise(call.kind)) {
    return collectives_.fetch_add(1, std::memory_order_relaxed);
  }
  const auto peer = std::ranges::lower_bound(ranks_, call.root);
  Messages& messages =
      messages_[static_cast<std::size_t>(peer - ranks_.begin())];
  return (call.kind == OpKind::Send ? messages.sent : messages.received)
      .fetch_add(1, std::memory_order_relaxed);
}

GroupCounts GroupLog::counts() const {
  GroupCounts counts{
      .id = id_, .ranks = ranks_, .collectives = collectives_.load()};
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const std::uint64_t sent = messages_[i].sent;
    const std::uint64_t received = messages_[i].received;
    if (sent + received > 0) {
      counts.messages.push_back(
          {.peer = ranks_[i], .sent = sent, .received = received});
    }
  }
  return counts;
}

std::shared_ptr<GroupLog> Recorder::add_group(int id, std::vector<int> ranks) {
  auto log = std::make_shared<GroupLog>(id, std::move(ranks));
  const std::lock_guard lock(mutex_);
  if (groups_.size() >= kMostGroups) {
    // Programs may make groups forever; those that nobody holds can go.
    std::erase_if(
        groups_, [](const auto& group) { return group.use_count() == 1; });
  }
  groups_.push_back(log);
  return log;
}

// Slots form a ring, but pending operations keep theirs: a hang must not be
// overwritten by later operations. A slot that is pending or being read is
// skipped; after kMostTries the operation goes unrecorded rather than wait.
Recorder::Ticket Recorder::issue(GroupLog& group, const Call& call) {
  const std::uint64_t sequence = group.next(call);
  for (std::size_t tries = 0; tries < kMostTries; ++tries) {
    const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    Slot& slot = slots_[number % kCapacity];
    if (slot.held.exchange(true, std::memory_order_acquire)) {
      continue;
    }
    if (slot.under_way.load(std::memory_order_acquire)) {
      slot.held.store(false, std::memory_order_release);
      continue;
    }
    slot.used = true;
    slot.number = number;
    slot.group = group.id();
    slot.sequence = sequence;
    slot.call = call;
    slot.issued = clock_.now();
    slot.started.store(0, std::memory_order_relaxed);
    slot.ended.store(0, std::memory_order_relaxed);
    slot.state.store(State::Issued, std::memory_order_relaxed);
    slot.under_way.store(true, std::memory_order_relaxed);
    slot.held.store(false, std::memory_order_release);
    return {number % kCapacity};
  }
  return {};
}

CurrentOperation Recorder::start(Ticket ticket) {
  if (ticket.slot >= kCapacity) {
    return {};
  }
  Slot& slot = slots_[ticket.slot];
  slot.started.store(clock_.now(), std::memory_order_relaxed);
  slot.state.store(State::Started, std::memory_order_release);
  return {
      .is_known = true,
      .sequence = slot.sequence,
      .root = slot.call.root,
      .label = slot.call.label};
}

// Last of all under_way, which lets another operation take the slot.
void Recorder::end(Slot& slot, State state) {
  slot.ended.store(clock_.now(), std::memory_order_relaxed);
  slot.state.store(state, std::memory_order_release);
  slot.under_way.store(false, std::memory_order_release);
}

void Recorder::complete(Ticket ticket) {
  if (ticket.slot < kCapacity) {
    end(slots_[ticket.slot], State::Completed);
  }
}

void Recorder::fail(Ticket ticket, const std::string& error) {
  if (ticket.slot < kCapacity) {
    Slot& slot = slots_[ticket.slot];
    slot.error = error;
    end(slot, State::Failed);
  }
}

Operation Recorder::operation_in(
    const Slot& slot, const TickClock::Reading& at) const {
  const auto time = [&](std::uint64_t ticks) {
    return ticks == 0 ? 0 : clock_.wall_us(ticks, at);
  };
  Operation operation{
      .number = slot.number,
      .group = slot.group,
      .sequence = slot.sequence,
      .call = slot.call,
      .state = slot.state.load(std::memory_order_acquire),
      .issued_us = time(slot.issued)};
  if (operation.state != State::Issued) {
    operation.started_us = time(slot.started.load(std::memory_order_relaxed));
  }
  if (operation.state >= State::Completed) {
    operation.ended_us = time(slot.ended.load(std::memory_order_relaxed));
  }
  if (operation.state == State::Failed) {
    operation.error = slot.error;
  }
  return operation;
}

class Recorder::Hold {
 public:
  explicit Hold(Slot& slot) : slot_(slot) {
    while (slot_.held.exchange(true, std::memory_order_acquire)) {
      std::this_thread::yield();
    }
  }
  ~Hold() { slot_.held.store(false, std::memory_order_release); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Slot& slot_;
};

Record Recorder::snapshot() const {
  Record record;
  const TickClock::Reading now = clock_.read();
  record.time_us = clock_.wall_us(now.ticks, now);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& group : groups_) {
      record.groups.push_back(group->counts());
    }
  }
  for (Slot& slot : slots_) {
    const Hold hold(slot);
    if (slot.used) {
      record.operations.push_back(operation_in(slot, now));
    }
  }
  std::ranges::sort(
      record.operations, [](const Operation& a, const Operation& b) {
        return a.number < b.number;
      });
  return record;
}

std::optional<Recorder::LongWait> Recorder::longest_wait() const {
  Slot* longest = nullptr;
  std::uint64_t since = 0;
  for (Slot& slot : slots_) {
    if (slot.state.load(std::memory_order_acquire) != State::Started) {
      continue;
    }
    const std::uint64_t started = slot.started.load(std::memory_order_relaxed);
    if (longest == nullptr || started < since) {
      longest = &slot;
      since = started;
    }
  }
  if (longest == nullptr) {
    return std::nullopt;
  }
  const TickClock::Reading now = clock_.read();
  const Hold hold(*longest);
  const Operation operation = operation_in(*longest, now);
  if (operation.state != State::Started) {
    return std::nullopt; // it has ended meanwhile
  }
  return LongWait{
      operation,
      std::chrono::microseconds(
          clock_.wall_us(now.ticks, now) - operation.started_us)};
}

} // namespace argosy::comm::flight
