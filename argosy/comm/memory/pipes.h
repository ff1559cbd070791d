#pragma once

#include <cstddef>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/memory/layout.h"
#include "argosy/common/deadline.h"

namespace argosy::comm::memory {

class Peers;

// Messages between two ranks that share memory. They may run beside collectives
// and each other, one at a time for each peer and direction.
//
// A message that fits into one slot of the pair's ring is sent without waiting
// for the receiver. A longer one goes through several slots in turn, or the
// receiver copies it straight from the sender's buffer if it can.
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

  // Blocks until a message is here; returns its sender.
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
