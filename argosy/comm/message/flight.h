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

// What messages are for. Messages of one tag between two ranks keep their
// order, so that one tag a purpose suffices.
enum class Tag : std::uint64_t {
  Note = 1, // on entering an operation
  Data,     // of an operation
  Sum,      // results of an operation's first part
  Letter,   // the beginning of a message of send()
  Reply,    // to a letter
  Bulk,     // the rest of a long message
};

// The way to a rank is cut.
class Broken : public PeerLost {
 public:
  Broken(int peer, const std::string& reason) : PeerLost(reason), peer_(peer) {}

  int peer() const { return peer_; }

 private:
  int peer_;
};

// A transfer that knows whom it is with. Throws Broken for PeerLost.
class Pending {
 public:
  static Pending send(
      Messenger& messenger,
      int peer,
      Tag tag,
      const void* data,
      std::size_t bytes);
  static Pending receive(
      Messenger& messenger, int peer, Tag tag, void* data, std::size_t bytes);

  void wait(Deadline deadline);

 private:
  int peer_ = -1;
  std::unique_ptr<Transfer> transfer_; // null once it has ended
};

// The transfers of one operation, and the memory that they need besides the
// caller's. Lives until all have ended or the messenger was aborted: so it must
// be made outside of what may throw, and destroyed after the error was dealt
// with.
class Flight {
 public:
  Flight(Messenger& messenger, Deadline deadline)
      : messenger_(messenger), deadline_(deadline) {}

  int rank() const { return messenger_.rank(); }
  int size() const { return messenger_.size(); }
  Deadline deadline() const { return deadline_; }

  // Numbers of transfers, for wait().
  std::size_t send(int peer, Tag tag, const void* data, std::size_t bytes);
  std::size_t receive(int peer, Tag tag, void* data, std::size_t bytes);

  void wait(std::size_t transfer);
  void wait(const std::vector<std::size_t>& transfers);
  void wait_all();

  std::byte* scratch(std::size_t bytes);

  // All ranks but ours, from the next one on, so that not all begin with the
  // same.
  std::vector<int> others() const;

 private:
  Messenger& messenger_;
  const Deadline deadline_;
  std::deque<std::unique_ptr<std::byte[]>> scratch_;
  std::deque<Pending> transfers_;
};

} // namespace argosy::comm::message
