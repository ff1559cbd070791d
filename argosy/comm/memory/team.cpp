#include "argosy/comm/memory/team.h"

#include <algorithm>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/operation/op_kind.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"

namespace argosy::comm::memory {

Entry& Team::entry(int rank) const {
  return peers_.control(rank).entries[sequence_ % 2];
}

const OpOffer& Team::offer_of(int rank) const {
  return entry(rank).offer;
}

// The synchronization that every collective begins with: each rank publishes
// its offer with the operation's number, then waits for the same number from
// every other rank. It costs n - 1 reads of foreign cache lines. There is no
// counter that all ranks raise, so they do not contend for a line.
//
// The entries alternate (see Control): a rank that is one operation ahead
// writes the other entry, while slow ranks still read this one.
void Team::enter(OpOffer offer, Deadline deadline) {
  peers_.check_usable();
  fault_point("memory.enter");
  offer.sequence = ++sequence_;
  const OpRecord& record = offer;
  Entry& own = entry(rank());
  // The offer first: publish() releases it to whoever sees the number.
  own.offer = offer;
  publish(own.begun, sequence_);
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    peers_.await(entry(peer).begun, sequence_, peer, record, deadline);
    // Compares OpRecord only: buffers and access differ from rank to rank.
    if (record != offer_of(peer)) {
      disagree(str_format(
          "rank {} calls {}, rank {} calls {}",
          peers_.number(rank()),
          describe(record),
          peers_.number(peer),
          describe(offer_of(peer))));
    }
  }
  fault_point("memory.entered");
}

Access Team::common_access() const {
  Access least = Access::Mapped;
  for (int peer = 0; peer < size(); ++peer) {
    least = std::min(least, offer_of(peer).access);
  }
  return least;
}

bool Team::windows_are_better() const {
  const Access access = common_access();
  return access == Access::Windowed ||
      (access == Access::KernelCopy && !peers_.fetches_faster());
}

Access Team::access_of(const void* data) const {
  if (peers_.one_address_space() || peers_.in_shared_heap(data) ||
      segments_.find(data)) {
    return Access::Mapped;
  }
  return peers_.can_fetch() ? Access::KernelCopy : Access::Windowed;
}

BufferRef Team::ref_of(const void* data, Access access) const {
  // The bit kInHeap is free: no address of user space has the highest bit.
  const auto address = reinterpret_cast<BufferRef>(data);
  if (access != Access::Mapped || peers_.one_address_space()) {
    return address;
  }
  return peers_.in_shared_heap(data) ? kInHeap | address
                                     : segments_.find(data).value_or(0);
}

std::byte* Team::local_address(int rank, BufferRef ref) const {
  if (peers_.one_address_space()) {
    return reinterpret_cast<std::byte*>(ref);
  }
  return (ref & kInHeap) != 0 ? peers_.local_address(rank, ref & ~kInHeap)
                              : segments_.local_address(rank, ref);
}

void Team::fetch(int peer, void* to, BufferRef from, std::size_t bytes) {
  if (offer_of(peer).access == Access::Mapped) {
    // Streams past the caches: the data is the caller's, nobody here reads it.
    copy(to, local_address(peer, from), bytes, true);
    return;
  }
  peers_.fetch(peer, to, from, bytes, offer_of(rank()));
}

void Team::store(int peer, BufferRef to, const void* from, std::size_t bytes) {
  if (offer_of(peer).access == Access::Mapped) {
    copy(local_address(peer, to), from, bytes, false);
    return;
  }
  peers_.store(peer, to, from, bytes, offer_of(rank()));
}

std::byte* Team::next_small_window() {
  return peers_.region(rank()).windows[(sequence_ + 1) % 2];
}

const std::byte* Team::small_window(int rank) const {
  return peers_.region(rank).windows[sequence_ % 2];
}

std::byte* Team::window(int rank, int index) const {
  return peers_.region(rank).windows[index];
}

// The counters only grow over the life of the group. All ranks run the same
// number of rounds in each operation, so rounds_before_ is equal on all, and no
// counter is ever reset, which would need one more synchronization.
void Team::publish_round(Member member, std::uint32_t round) {
  publish(peers_.control(rank()).*member, rounds_before_ + round + 1);
}

void Team::await_round(Member member, std::uint32_t round, Deadline deadline) {
  fault_point("memory.round");
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    peers_.await(
        peers_.control(peer).*member,
        rounds_before_ + round + 1,
        peer,
        offer_of(rank()),
        deadline);
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

void Team::disagree(const std::string& how) {
  const OpRecord& mine = offer_of(rank());
  peers_.fail(
      FailureKind::Disagreement,
      str_format(
          "[comm.{}] ranks disagree about {}: {}",
          to_string(mine.kind),
          place_in_group(mine, peers_.name()),
          how));
}

} // namespace argosy::comm::memory
