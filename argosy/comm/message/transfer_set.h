#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/message/messenger.h"
#include "argosy/common/deadline.h"
#include "argosy/common/error.h"

namespace argosy::comm::message {

// The purpose of a message. Messages of one tag between two ranks arrive in
// order, so one tag for each purpose suffices.
enum class Tag : std::uint64_t {
  Enter = 1, // what ranks tell each other on entering an operation
  Data,      // of an operation
  Sum,       // reduced slices
  Envelope,  // announces a message of send()
  Reply,     // to an envelope
  Bulk,      // the rest of a long message
};

// The connection to a rank is lost.
class ConnectionLost : public PeerLost {
 public:
  ConnectionLost(int peer, const std::string& reason)
      : PeerLost(reason), peer_(peer) {}

  int peer() const { return peer_; }

 private:
  int peer_;
};

// A rank did not send or receive in time.
class TransferLate : public TimeoutError {
 public:
  TransferLate(int peer, const std::string& reason)
      : TimeoutError(reason), peer_(peer) {}

  int peer() const { return peer_; }

 private:
  int peer_;
};

// A transfer together with its peer. Throws ConnectionLost and TransferLate,
// which name the peer, in place of PeerLost and TimeoutError.
class PeerTransfer {
 public:
  static PeerTransfer send(
      Messenger& messenger,
      int peer,
      Tag tag,
      const void* data,
      std::size_t bytes);
  static PeerTransfer receive(
      Messenger& messenger, int peer, Tag tag, void* data, std::size_t bytes);

  void wait(Deadline deadline);

 private:
  int peer_ = -1;
  std::unique_ptr<Transfer> transfer_; // null once it has ended
};

// The transfers of one operation, and the memory that they need besides the
// caller's. It must live until all transfers have ended or the messenger was
// aborted: declare it outside the try block of the operation, so that it is
// destroyed after the error was handled.
class TransferSet {
 public:
  TransferSet(Messenger& messenger, Deadline deadline)
      : messenger_(messenger), deadline_(deadline) {}

  int rank() const { return messenger_.rank(); }
  int size() const { return messenger_.size(); }
  Deadline deadline() const { return deadline_; }

  // Both post a transfer and return its number, for wait().
  std::size_t send(int peer, Tag tag, const void* data, std::size_t bytes);
  std::size_t receive(int peer, Tag tag, void* data, std::size_t bytes);

  void wait(std::size_t transfer);
  void wait(const std::vector<std::size_t>& transfers);
  void wait_all();

  std::byte* scratch(std::size_t bytes);

  // All ranks but ours, beginning with the next one, so that ranks do not all
  // start with the same peer.
  std::vector<int> others() const;

 private:
  Messenger& messenger_;
  const Deadline deadline_;
  std::deque<std::unique_ptr<std::byte[]>> scratch_;
  std::deque<PeerTransfer> transfers_;
};

} // namespace argosy::comm::message
