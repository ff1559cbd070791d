#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "argosy/comm/backend/blocks.h"
#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/common/deadline.h"
#include "argosy/common/error.h"

namespace argosy::comm {

// How the ranks of one group communicate. Ranks, roots and peers are ranks in
// the group. Buffers and blocks are contiguous; `in` and `out` may be the same
// buffer if both have the same size, and must not overlap otherwise.
//
// Collectives: all members must call the same ones in the same order, one at a
// time. If they disagree, all of them throw InvalidArgument.
//
// Point to point: send() and receive() may run on other threads, beside
// collectives and each other, one at a time for each peer and direction.
// Messages of a pair arrive in the order in which they were sent. If the sizes
// or types of a send and its receive differ, both throw InvalidArgument. send()
// may return before a short message has arrived.
//
// All of them block until this rank's part is done. They throw TimeoutError at
// the deadline and PeerLost if a rank is gone. After any error the group is
// unusable: every later operation of every member fails.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;

  virtual void barrier(Deadline deadline) = 0;
  virtual void all_reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) = 0;
  // `out` matters on the root only.
  virtual void reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      int root,
      Deadline deadline) = 0;
  virtual void broadcast(
      void* data,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) = 0;
  // `out` has a block of `count` elements for each rank.
  virtual void all_gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      Deadline deadline) = 0;
  // `in` has a block of `count` elements for each rank.
  virtual void reduce_scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) = 0;
  // Blocks may have any size; sender and receiver must agree on it.
  virtual void all_to_all(
      const Blocks& in, const Blocks& out, DType dtype, Deadline deadline) = 0;
  // `out` matters on the root only.
  virtual void gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) = 0;
  // `in` matters on the root only.
  virtual void scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) = 0;

  virtual void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) = 0;
  virtual void receive(
      void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) = 0;
  // Blocks until a message is here that nobody has received yet; returns its
  // sender.
  virtual int await_any_message(Deadline deadline) = 0;

  // Memory of this rank that all members access directly, so that operations on
  // it copy as little as possible. A collective; all members must ask for the
  // same size. The memory may outlive the backend. Throws InvalidArgument if
  // the backend shares no memory.
  virtual std::shared_ptr<std::byte> symmetric_memory(
      std::size_t /*bytes*/, Deadline /*deadline*/) {
    throw InvalidArgument(
        "[comm.symmetric_empty] backend " + name() + " shares no memory");
  }

  // Ends all operations of all members, now and later, with PeerLost. Any
  // thread may call it at any time.
  virtual void abort(const std::string& reason) = 0;
};

} // namespace argosy::comm
