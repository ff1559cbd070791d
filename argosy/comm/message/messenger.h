#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "argosy/common/deadline.h"

namespace argosy::comm::message {

// A send or receive that was posted. Wait for it before destroying it, unless
// its messenger was aborted.
class Transfer {
 public:
  virtual ~Transfer() = default;

  // Blocks until the buffer may be used again. Throws TimeoutError at the
  // deadline, PeerLost if the peer is gone or the messenger was aborted.
  virtual void wait(Deadline deadline) = 0;
};

// Moves bytes between the ranks of a group: all that a transport must implement
// to run every collective. Thread-safe.
class Messenger {
 public:
  virtual ~Messenger() = default;

  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Messages match by sender, receiver and tag; those of one tag arrive in
  // order. The buffer must stay alive until the transfer has ended. A message
  // may be shorter than the receiver's buffer, never longer.
  virtual std::unique_ptr<Transfer> send(
      int peer, std::uint64_t tag, const void* data, std::size_t bytes) = 0;
  virtual std::unique_ptr<Transfer> receive(
      int peer, std::uint64_t tag, void* data, std::size_t bytes) = 0;

  // Ends all transfers of this rank, now and later, with PeerLost.
  virtual void abort(const std::string& reason) = 0;
};

} // namespace argosy::comm::message
