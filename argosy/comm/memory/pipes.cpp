#include "argosy/comm/memory/pipes.h"

#include <algorithm>
#include <cstring>

#include "argosy/comm/backend/slices.h"
#include "argosy/comm/memory/peers.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"

namespace argosy::comm::memory {

namespace {

// The value of a counter that this side alone writes; so it needs no ordering.
std::uint32_t own(const Counter& counter) {
  return counter.value.load(std::memory_order_relaxed);
}

std::size_t chunk(std::size_t bytes, std::size_t done) {
  return std::min(kSlotBytes, bytes - done);
}

} // namespace

Pipe& Pipes::pipe(int from, int to) const {
  return peers_.region(from).pipe(to);
}

// A pipe is a ring of kSlots slots with one writer and one reader. `posted` and
// `taken` count slots and only grow: slot i may be filled once `taken` has
// reached i + 1 - kSlots, and read once `posted` has reached i + 1. The numbers
// wrap, which reached() allows for.
Slot& Pipes::await_free(int peer, const OpRecord& doing, Deadline deadline) {
  Pipe& to = pipe(peers_.rank(), peer);
  const std::uint32_t index = own(to.posted);
  peers_.await(to.taken, index + 1 - kSlots, peer, doing, deadline);
  return to.slots[index % kSlots];
}

Slot& Pipes::await_filled(int peer, const OpRecord& doing, Deadline deadline) {
  Pipe& from = pipe(peer, peers_.rank());
  const std::uint32_t index = own(from.taken);
  peers_.await(from.posted, index + 1, peer, doing, deadline);
  return from.slots[index % kSlots];
}

void Pipes::post(int peer) {
  Counter& posted = pipe(peers_.rank(), peer).posted;
  publish(posted, own(posted) + 1);
}

void Pipes::take(int peer) {
  Counter& taken = pipe(peer, peers_.rank()).taken;
  publish(taken, own(taken) + 1);
}

// Short messages leave in one slot and do not wait for the receiver, unless the
// ring is full. A message of no bytes takes a slot too, for its header.
void Pipes::send(
    const void* data,
    std::size_t count,
    DType dtype,
    int peer,
    Deadline deadline) {
  peers_.check_usable();
  fault_point("memory.send");
  const OpRecord doing = make_record(OpKind::Send, count, dtype, peer);
  const std::size_t bytes = count * size_of(dtype);
  const BufferRef in_heap = peers_.in_shared_heap(data) ? kInHeap : 0;
  const bool by_ref =
      bytes > kSlotBytes && (in_heap != 0 || peers_.can_fetch());
  for (std::size_t done = 0; done < bytes || done == 0; done += kSlotBytes) {
    Slot& slot = await_free(peer, doing, deadline);
    if (done == 0) {
      slot.header = {
          count, dtype, by_ref, in_heap | reinterpret_cast<BufferRef>(data)};
    }
    if (!by_ref && bytes > 0) {
      std::memcpy(slot.data, at(data, done), chunk(bytes, done));
    }
    // Order: await_any() reads `arrivals`, then looks for posted slots. If we
    // raised first, it could see the new number and miss the message.
    post(peer);
    if (done == 0) {
      raise(peers_.control(peer).arrivals);
    }
    if (by_ref) {
      // The receiver reads the caller's buffer, which must stay until it has.
      Pipe& to = pipe(peers_.rank(), peer);
      peers_.await(to.taken, own(to.posted), peer, doing, deadline);
      return;
    }
  }
}

// The receiver alone sees both sides, so it fails the group: then the sender
// learns of the mismatch too.
void Pipes::check_header(
    const MessageHeader& header, int peer, const OpRecord& expected) {
  if (header.count == expected.count && header.dtype == expected.dtype) {
    return;
  }
  OpRecord sent = expected;
  sent.kind = OpKind::Send;
  sent.count = header.count;
  sent.dtype = header.dtype;
  sent.root = peers_.rank();
  peers_.fail(
      FailureKind::Disagreement,
      str_format(
          "[comm.recv] ranks of group {} disagree about a message: rank {} "
          "calls {}, rank {} calls {}",
          peers_.name(),
          peers_.number(peer),
          describe(sent),
          peers_.number(peers_.rank()),
          describe(expected)));
}

void Pipes::receive(
    void* data, std::size_t count, DType dtype, int peer, Deadline deadline) {
  peers_.check_usable();
  fault_point("memory.recv");
  const OpRecord doing = make_record(OpKind::Recv, count, dtype, peer);
  const std::size_t bytes = count * size_of(dtype);
  for (std::size_t done = 0; done < bytes || done == 0; done += kSlotBytes) {
    const Slot& slot = await_filled(peer, doing, deadline);
    if (done == 0) {
      check_header(slot.header, peer, doing);
    }
    if (done == 0 && slot.header.by_ref) {
      // The last guard ends before take(), which lets the sender return.
      const BufferRef ref = slot.header.ref;
      peers_.guarded(bytes, [&](std::size_t begin, std::size_t part) {
        peers_.fetch(peer, at(data, begin), ref + begin, part, doing);
      });
      take(peer);
      return;
    }
    if (bytes > 0) {
      std::memcpy(at(data, done), slot.data, chunk(bytes, done));
    }
    take(peer);
  }
}

int Pipes::find_message() const {
  for (int peer = 0; peer < peers_.size(); ++peer) {
    const Pipe& from = pipe(peer, peers_.rank());
    if (from.posted.value.load(std::memory_order_acquire) != own(from.taken)) {
      return peer;
    }
  }
  return -1;
}

int Pipes::await_any(Deadline deadline) {
  peers_.check_usable();
  const OpRecord doing = make_record(OpKind::Recv, 0, DType::UInt8);
  Counter& arrivals = peers_.control(peers_.rank()).arrivals;
  for (;;) {
    // Read before the search: a message that comes after it raises the number.
    const std::uint32_t seen = arrivals.value.load();
    const int peer = find_message();
    if (peer >= 0) {
      return peer;
    }
    // May wake for a message that receive() has taken meanwhile: look again.
    peers_.await(arrivals, seen + 1, -1, doing, deadline);
  }
}

} // namespace argosy::comm::memory
