#pragma once

#include <deque>
#include <map>
#include <utility>

#include "argosy/comm/mpi/calls.h"
#include "argosy/comm/mpi/packet.h"
#include "argosy/common/deadline.h"

namespace argosy::comm::mpi {

// A buffer that waits for its message. Use it under calls_mutex().
struct PendingReceive {
  int peer = 0; // rank in the communicator
  std::uint64_t tag = 0;
  void* data = nullptr;
  std::size_t capacity = 0;
  bool begun = false; // its packet has arrived
  Requests payload;
  std::string error;

  // Takes the packet that has arrived; sets `error` if `capacity` is too small.
  void accept(MPI_Comm comm, const std::byte* packet) {
    begun = true;
    const Header header = header_of(packet);
    if (header.bytes > capacity) {
      error = str_format(
          "rank {} sent {} bytes with tag {}, expected at most {}",
          peer,
          header.bytes,
          tag,
          capacity);
    } else if (header.payload_tag != 0) {
      receive_payload(comm, header);
    } else if (header.bytes > 0) {
      std::memcpy(data, packet + sizeof(Header), header.bytes);
    }
  }

 private:
  void receive_payload(MPI_Comm comm, const Header& header) {
    for_parts(header.bytes, [&](std::size_t at, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(
          MPI_Irecv(
              static_cast<std::byte*>(data) + at,
              count,
              MPI_BYTE,
              peer,
              header.payload_tag,
              comm,
              &request),
          "MPI_Irecv",
          peer);
      payload.add(request);
    });
  }
};

// One group's messages to this rank. Use it under calls_mutex().
class Channel {
 public:
  // Why the channel has ended; empty while it works.
  std::string ended;

  // MPI keeps the order: all that the peer sent has arrived before.
  void end_peer(int peer, const std::string& reason) {
    ended_peers_.try_emplace(peer, End{reason, Deadline::after(kGrace)});
  }

  // Throws PeerLost if a transfer with `peer` can no longer succeed. One that
  // has `begun` may still be on its way.
  void check(const std::string& group, int peer, bool begun) const {
    if (!ended.empty()) {
      throw PeerLost(str("[comm.mpi] group ", group, " has ended: ", ended));
    }
    const auto found = ended_peers_.find(peer);
    if (found == ended_peers_.end() ||
        (begun && !found->second.grace.expired())) {
      return;
    }
    throw PeerLost(str_format(
        "[comm.mpi] rank {} has left group {}: {}",
        peer,
        group,
        found->second.reason));
  }

  void expect(MPI_Comm comm, PendingReceive& pending) {
    Inbox& inbox = inboxes_[{pending.peer, pending.tag}];
    if (inbox.arrived.empty()) {
      inbox.waiting.push_back(&pending);
      return;
    }
    const Packet packet = std::move(inbox.arrived.front());
    inbox.arrived.pop_front();
    forget_if_empty(pending.peer, pending.tag);
    pending.accept(comm, packet.data());
  }

  void deliver(
      MPI_Comm comm, int peer, const std::byte* packet, std::size_t bytes) {
    const std::uint64_t tag = header_of(packet).tag;
    Inbox& inbox = inboxes_[{peer, tag}];
    if (inbox.waiting.empty()) {
      inbox.arrived.emplace_back(packet, packet + bytes);
      return;
    }
    PendingReceive& pending = *inbox.waiting.front();
    inbox.waiting.pop_front();
    forget_if_empty(peer, tag);
    pending.accept(comm, packet);
  }

  void abandon(const PendingReceive& pending) {
    const auto found = inboxes_.find({pending.peer, pending.tag});
    if (found != inboxes_.end()) {
      std::erase(found->second.waiting, &pending);
      forget_if_empty(pending.peer, pending.tag);
    }
  }

 private:
  // At least one of the two is empty.
  struct Inbox {
    std::deque<PendingReceive*> waiting;
    std::deque<Packet> arrived;
  };

  // Programs may use each tag only once, so empty inboxes must not pile up.
  void forget_if_empty(int peer, std::uint64_t tag) {
    const auto found = inboxes_.find({peer, tag});
    if (found->second.waiting.empty() && found->second.arrived.empty()) {
      inboxes_.erase(found);
    }
  }

  struct End {
    std::string reason;
    Deadline grace;
  };

  static constexpr std::chrono::seconds kGrace{1};

  std::map<std::pair<int, std::uint64_t>, Inbox> inboxes_;
  std::map<int, End> ended_peers_;
};

} // namespace argosy::comm::mpi
