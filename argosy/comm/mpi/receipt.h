#pragma once

#include <deque>
#include <map>
#include <utility>

#include "argosy/comm/mpi/calls.h"
#include "argosy/comm/mpi/letter.h"
#include "argosy/common/deadline.h"

namespace argosy::comm::mpi {

// A buffer that waits for its message. To be used under calls_mutex().
struct Receipt {
  int peer = 0; // rank in the communicator
  std::uint64_t tag = 0;
  void* data = nullptr;
  std::size_t capacity = 0;
  bool begun = false; // its letter has come
  Requests payload;
  std::string error;

  // Its letter has come; `data` and `capacity` are large enough or it fails.
  void accept(MPI_Comm comm, const std::byte* letter) {
    begun = true;
    const Header header = header_of(letter);
    if (header.bytes > capacity) {
      error =
          str("rank ",
              peer,
              " sent ",
              header.bytes,
              " bytes with tag ",
              tag,
              ", expected at most ",
              capacity);
    } else if (header.payload_tag != 0) {
      receive_payload(comm, header);
    } else if (header.bytes > 0) {
      std::memcpy(data, letter + sizeof(Header), header.bytes);
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

// One group's messages to this rank. To be used under calls_mutex().
class Channel {
 public:
  // Why there are no more messages at all; empty while there are.
  std::string ended;

  // That a peer has ended comes after all that it sent.
  void end_peer(int peer, const std::string& reason) {
    ended_peers_.try_emplace(peer, End{reason, Deadline::after(kGrace)});
  }

  // Throws PeerLost when nothing comes of a transfer with `peer` any more. What
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
    throw PeerLost(
        str("[comm.mpi] rank ",
            peer,
            " has left group ",
            group,
            ": ",
            found->second.reason));
  }

  void expect(MPI_Comm comm, Receipt& receipt) {
    Inbox& inbox = inboxes_[{receipt.peer, receipt.tag}];
    if (inbox.arrived.empty()) {
      inbox.waiting.push_back(&receipt);
      return;
    }
    const Letter letter = std::move(inbox.arrived.front());
    inbox.arrived.pop_front();
    forget_if_empty(receipt.peer, receipt.tag);
    receipt.accept(comm, letter.data());
  }

  void deliver(
      MPI_Comm comm, int peer, const std::byte* letter, std::size_t bytes) {
    const std::uint64_t tag = header_of(letter).tag;
    Inbox& inbox = inboxes_[{peer, tag}];
    if (inbox.waiting.empty()) {
      inbox.arrived.emplace_back(letter, letter + bytes);
      return;
    }
    Receipt& receipt = *inbox.waiting.front();
    inbox.waiting.pop_front();
    forget_if_empty(peer, tag);
    receipt.accept(comm, letter);
  }

  void give_up(const Receipt& receipt) {
    const auto found = inboxes_.find({receipt.peer, receipt.tag});
    if (found != inboxes_.end()) {
      std::erase(found->second.waiting, &receipt);
      forget_if_empty(receipt.peer, receipt.tag);
    }
  }

 private:
  // At least one of the two is empty.
  struct Inbox {
    std::deque<Receipt*> waiting;
    std::deque<Letter> arrived;
  };

  // Tags may be used once each.
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
