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

// How the ranks of one group communicate. Ranks, roots and peers are those of
// the group. Buffers and blocks are contiguous; `in` and `out` may be the same
// where both have the same size, and overlap in no other way.
//
// Collectives: all members call the same ones in the same order, one at a time.
// They throw InvalidArgument when ranks disagree, on all of them.
//
// Point to point: send() and receive() may run beside collectives and beside
// each other, on other threads; for each peer and direction one at a time.
// Messages of one pair arrive in the order in which they were sent. A send of
// some other size or type than the receive expects is InvalidArgument on both
// sides. A short message may be on its way when send() returns.
//
// All of them block until this rank's part is done, and throw TimeoutError at
// the deadline, PeerLost when a rank is gone. After any error the group is of
// no more use: every later operation of every member fails.
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
  // Blocks of any size; what a rank sends to another is what that one expects.
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
  // A peer of whom the beginning of a message has come and is not yet received.
  virtual int await_any_message(Deadline deadline) = 0;

  // Memory of this rank that all members can use directly: operations on it
  // move no byte more than they must. A collective; all ask for the same size.
  // It may outlive the backend. Throws InvalidArgument where there is none.
  virtual std::shared_ptr<std::byte> symmetric_memory(
      std::size_t /*bytes*/, Deadline /*deadline*/) {
    throw InvalidArgument(
        "[comm.symmetric_empty] backend " + name() + " shares no memory");
  }

  // Ends all operations of all members, now and later, with PeerLost. May be
  // called by any thread at any time.
  virtual void abort(const std::string& reason) = 0;
};

} // namespace argosy::comm
