#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/message/transfer_set.h"

namespace argosy::comm::message {

// Messages between two ranks. The sender announces each message with an
// envelope, which also carries short data (eager). For longer data the receiver
// first replies whether it expects this size and type (rendezvous), so both
// ends learn of a mismatch.
//
// A receive for the next envelope of a peer is posted from the first use of
// that peer on: a short message gets through while nobody waits for it.
// Thread-safe as Backend says.
class PointToPoint {
 public:
  PointToPoint(std::string group, Messenger& messenger);
  ~PointToPoint(); // after the messenger was aborted

  // Of `count` elements; throws InvalidArgument when the receiver expects
  // another number or type.
  void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      TransferSet& transfers);
  void receive(
      void* data,
      std::size_t count,
      DType dtype,
      int peer,
      TransferSet& transfers);

  // Returns a peer whose envelope has arrived.
  int await_any(Deadline deadline);

 private:
  struct Header {
    std::uint64_t count = 0;
    std::uint64_t dtype = 0;
  };

  // What has arrived from one peer. Guarded by mutex_, except the envelope: it
  // belongs to the reading thread, then to the receiving one.
  struct Inbox {
    std::vector<std::byte> envelope;
    PeerTransfer arrival;
    bool expected = false; // a receive for the envelope is posted
    bool reading = false;  // a thread waits for it
    bool ready = false;
    std::exception_ptr error;
    std::thread watcher; // reads for await_any(), from its first call on
  };

  Inbox& inbox(int peer) { return inboxes_[static_cast<std::size_t>(peer)]; }
  void expect_envelope(int peer);
  void read_envelope(int peer, Deadline deadline);
  void watch(int peer);
  void wait_for_removal(int peer);
  std::string mismatch(
      const Header& sent, const Header& expected, int peer) const;

  const std::string group_;
  Messenger& messenger_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Inbox> inboxes_;
  bool stop_ = false; // guarded by mutex_
};

} // namespace argosy::comm::message
