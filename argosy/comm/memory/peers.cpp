#include "argosy/comm/memory/peers.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/memory/fetch.h"
#include "argosy/comm/memory/liveness.h"
#include "argosy/common/error.h"
#include "argosy/common/exit_note.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/heap/heap.h"

namespace argosy::comm::memory {

namespace {

// A guard lasts for one copy of a few megabytes. Who runs and has not ended one
// after so many times PeersSetup::longest_guard never will.
constexpr int kMostGuards = 10;

[[noreturn]] void throw_as(FailureKind kind, const std::string& text) {
  switch (kind) {
    case FailureKind::Disagreement:
      throw InvalidArgument(text);
    case FailureKind::Timeout:
      throw TimeoutError(text);
    default:
      throw PeerLost(text);
  }
}

std::string tag(const OpRecord& doing) {
  return str("[comm.", to_string(doing.kind), "] ");
}

} // namespace

Peers::Peers(PeersSetup setup)
    : setup_(std::move(setup)),
      policy_(WaitPolicy::for_ranks(static_cast<int>(setup_.regions.size()))) {}

bool Peers::in_shared_heap(const void* data) const {
  return !setup_.heaps.empty() && heap::shared_heap()->contains(data);
}

const Failure& Peers::failure() const {
  return control(static_cast<int>(told_by().load()) - 1).failure;
}

// Sequentially consistent, which BufferGuard and await_unguarded() rely on. A
// guard counts itself, then looks for a failure; a rank that fails publishes
// the failure, then looks at the counts. So at least one sees the other: either
// the guard throws, or the failing rank waits for it.
bool Peers::has_failed() const {
  return told_by().load() != 0;
}

Peers::BufferGuard::BufferGuard(Peers& peers)
    : guards_(peers.control(peers.rank()).guards) {
  guards_.fetch_add(1);
  if (peers.has_failed()) {
    guards_.fetch_sub(1);
    peers.throw_failure();
  }
  try {
    fault_point("memory.guard");
  } catch (...) {
    guards_.fetch_sub(1);
    throw;
  }
}

Peers::BufferGuard::~BufferGuard() {
  guards_.fetch_sub(1);
}

// Waits until no other rank accesses our buffers. To be called after the
// failure is published, so that no rank begins anew. A rank that was killed
// inside a guard counts as gone.
void Peers::await_unguarded() const {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) {
      await_unguarded(peer);
    }
  }
}

void Peers::await_unguarded(int peer) const {
  const Deadline patience = Deadline::after(setup_.longest_guard);
  const Deadline limit = Deadline::after(kMostGuards * setup_.longest_guard);
  const ProcessWatch* const process =
      setup_.liveness == nullptr ? nullptr : setup_.liveness->watch(peer);
  bool fenced = false;
  while (control(peer).guards.load() != 0 && !is_lost(peer)) {
    const bool stuck = limit.expired() ||
        (patience.expired() && process != nullptr && process->is_stopped());
    if (stuck && (fenced || process == nullptr || !fence(peer))) {
      log::error(
          "[comm] rank {} of group {} may still write into memory of this one",
          number(peer),
          name());
      return;
    }
    fenced = fenced || stuck;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// Makes sure that a rank which is stopped inside a transfer never goes on with
// it. When it was continued, it would write into a buffer that its owner has
// long got back. Nothing less than its end is certain: a write through the
// kernel cannot be revoked. The group is lost at this point, and with it a rank
// that did not come out of a copy.
bool Peers::fence(int peer) const {
  const ProcessWatch& process = *setup_.liveness->watch(peer);
  if (!process.send(SIGKILL) && errno != ESRCH) {
    return false;
  }
  log::warn(
      "[comm] rank {} of group {} was stopped inside a transfer when the group "
      "failed; its process {} was killed, because it would write into memory "
      "of others when it went on",
      number(peer),
      name(),
      process.pid());
  const Deadline limit = Deadline::after(setup_.longest_guard);
  while (!process.has_ended() && !limit.expired()) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return process.has_ended();
}

// Peer -1: any rank. While we wait for any of them, one that is dead may be the
// one that would have sent.
bool Peers::is_lost(int peer) const {
  if (setup_.liveness == nullptr) {
    return false;
  }
  return peer >= 0 ? setup_.liveness->is_dead(peer)
                   : setup_.liveness->is_any_dead();
}

// Whether a wait for `peer` is of no use. A collective cannot end without all:
// when a member is gone, and what we wait for is not there, then it went before
// it had done its part.
bool Peers::is_hopeless(int peer, const OpRecord& doing) const {
  return has_failed() || is_lost(is_pairwise(doing.kind) ? peer : -1);
}

// The first call after a failure throws the failure as it was, so that all
// ranks report the same; later calls say that the group is unusable.
void Peers::check_usable() {
  if (told_.load(std::memory_order_relaxed)) {
    throw PeerLost(str_format(
        "[comm] group {} is of no more use: {}",
        name(),
        has_failed() ? failure().text : "it has failed"));
  }
  if (has_failed()) {
    throw_failure();
  }
}

void Peers::await(
    Signal& signal,
    std::uint32_t target,
    int peer,
    const OpRecord& doing,
    Deadline deadline) {
  // Written only before sleep, so that short waits stay cheap. Peers whose time
  // is up read it: see culprit().
  auto& waits_for = control(rank()).waits_for;
  bool slept = false;
  const auto hopeless = [&] {
    slept = true;
    waits_for.store(peer, std::memory_order_relaxed);
    return is_hopeless(peer, doing);
  };
  const WaitResult result =
      wait_for(signal, target, policy_, std::ref(hopeless), deadline);
  if (result == WaitResult::Expired) {
    // `waits_for` stays set: others whose time is up follow it past us.
    fail(
        FailureKind::Timeout,
        str(tag(doing),
            peer < 0 ? "no rank" : str("rank ", number(culprit(peer))),
            " of group ",
            name(),
            peer < 0 ? " came to " : " did not come to ",
            describe_in_group(doing),
            " within ",
            deadline.limit_text()));
  }
  if (slept) {
    waits_for.store(-1, std::memory_order_relaxed);
  }
  if (result == WaitResult::Hopeless) {
    throw_lost(peer, doing);
  }
}

// Follows the chain of waits from `peer` to a rank that waits for nobody: a
// rank that waits is not to blame. The values may be stale, which costs at most
// a worse text. size() steps suffice unless the ranks wait in a circle.
int Peers::culprit(int peer) const {
  int blamed = peer;
  for (int step = 0; step < size(); ++step) {
    const int next = control(blamed).waits_for.load(std::memory_order_relaxed);
    if (next < 0) {
      return blamed;
    }
    blamed = next;
  }
  return peer; // they wait in a circle
}

void Peers::throw_lost(int peer, const OpRecord& doing) {
  if (has_failed()) {
    throw_failure();
  }
  std::map<std::string, std::vector<int>> gone; // by what became of them
  for (int any = 0; any < size(); ++any) {
    if (is_lost(any)) {
      gone[ending_of(any)].push_back(number(any));
    }
  }
  if (gone.empty() && peer >= 0) { // its memory went before its process
    gone[ending_of(peer)].push_back(number(peer));
  }
  std::vector<std::string> parts;
  for (const auto& [ended, ranks] : gone) {
    parts.push_back(gone_text(ranks, name(), ended));
  }
  fail(
      FailureKind::Loss,
      str(tag(doing),
          join(parts, " and "),
          " during ",
          describe_in_group(doing)));
}

// A process that ends in order closes its groups, one that is killed does not.
std::string Peers::ending_of(int peer) const {
  const std::string ended =
      setup_.numbers.empty() ? "" : how_rank_ended(number(peer));
  if (!ended.empty()) {
    return ended;
  }
  return control(peer).closed.load(std::memory_order_relaxed) ? "has left"
                                                              : "died";
}

void Peers::fetch(
    int peer,
    void* to,
    BufferRef from,
    std::size_t bytes,
    const OpRecord& doing) {
  if (one_address_space()) {
    copy(to, reinterpret_cast<const void*>(from), bytes, true);
    return;
  }
  // Messages only (Pipes): for collectives Team::fetch() resolves mapped refs.
  if ((from & kInHeap) != 0) {
    copy(to, local_address(peer, from & ~kInHeap), bytes, true);
    return;
  }
  if (!fetch_from(process(peer), to, from, bytes)) {
    throw_unreachable(peer, doing);
  }
}

void Peers::store(
    int peer,
    BufferRef to,
    const void* from,
    std::size_t bytes,
    const OpRecord& doing) {
  if (one_address_space()) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return;
  }
  if (!store_to(process(peer), to, from, bytes)) {
    throw_unreachable(peer, doing);
  }
}

void Peers::throw_unreachable(int peer, const OpRecord& doing) {
  // errno first, as later calls may change it. A process that ends loses its
  // memory (ESRCH) before its pidfd reports the end.
  const bool gone = errno == ESRCH;
  const std::string reason =
      with_errno(str("memory of rank ", number(peer), " cannot be reached"));
  if (gone || has_failed() || is_lost(peer)) {
    throw_lost(peer, doing);
  }
  fail(FailureKind::Loss, str(tag(doing), "in group ", name(), ", ", reason));
}

// Makes a failure the group's; false when it has one already. The text is
// complete before one step names it, so that nobody ever sees half of it. It
// wakes nobody: ranks that sleep look for a failure every
// WaitPolicy::check_interval.
bool Peers::tell(FailureKind kind, const std::string& text) {
  const std::lock_guard lock(tell_mutex_); // threads of this rank
  if (has_failed()) {
    return false;
  }
  Failure& own = control(rank()).failure;
  own.kind = kind;
  fault_point("memory.tell");
  std::strncpy(own.text, text.c_str(), sizeof(own.text) - 1);
  std::uint32_t nobody = 0;
  return told_by().compare_exchange_strong(
      nobody, static_cast<std::uint32_t>(rank()) + 1);
}

void Peers::fail(FailureKind kind, const std::string& text) {
  if (!tell(kind, text)) {
    throw_failure();
  }
  told_.store(true, std::memory_order_relaxed);
  await_unguarded();
  throw_as(kind, text);
}

void Peers::throw_failure() {
  told_.store(true, std::memory_order_relaxed);
  await_unguarded();
  throw_as(failure().kind, failure().text);
}

// Called by any thread, also while another one is in an operation. It does not
// set told_: that operation, or the next one, throws the reason.
void Peers::abort(const std::string& reason) {
  tell(
      FailureKind::Loss,
      str_format(
          "[comm] group {} was aborted by rank {}: {}",
          name(),
          number(rank()),
          reason));
}

} // namespace argosy::comm::memory
