#pragma once

#include <cstddef>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/memory/layout.h"
#include "argosy/common/deadline.h"

namespace argosy::comm::memory {

class Peers;

// Messages between two ranks that share memory, beside collectives and each
// other. For each peer and direction one at a time.
//
// A message fills one slot of the pair's ring, which send() does not wait for,
// or several in turn; or it is taken straight from the sender's buffer, where
// the receiver can do that.
class Pipes {
 public:
  explicit Pipes(Peers& peers) : peers_(peers) {}

  void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline);
  void receive(
      void* data, std::size_t count, DType dtype, int peer, Deadline deadline);

  // A peer with a message that is not received yet.
  int await_any(Deadline deadline);

 private:
  Pipe& pipe(int from, int to) const;
  Slot& await_free(int peer, const OpRecord& doing, Deadline deadline);
  Slot& await_filled(int peer, const OpRecord& doing, Deadline deadline);
  void post(int peer);
  void take(int peer);
  int find_message() const;
  void check_header(
      const MessageHeader& header, int peer, const OpRecord& expected);

  Peers& peers_;
};

} // namespace argosy::comm::memory
