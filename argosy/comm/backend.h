#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/common/deadline.h"

namespace argosy::comm {

// How the ranks of one group communicate. Buffers are contiguous; `in` and
// `out` may be the same where both have the same size, and overlap in no other
// way. All members call the same operations in the same order, one at a time.
//
// Operations block until this rank's part is done. They throw InvalidArgument
// when ranks disagree, TimeoutError at the deadline, PeerLost when a rank is
// gone; after any of these the group is of no more use.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;

  virtual void barrier(Deadline deadline) = 0;
  virtual void all_reduce(
      const void* in,
      void* out,
      std::size_t count,
      DType dtype,
      ReduceOp op,
      Deadline deadline) = 0;
  // `out` matters on the root only.
  virtual void reduce(
      const void* in,
      void* out,
      std::size_t count,
      DType dtype,
      ReduceOp op,
      int root,
      Deadline deadline) = 0;
  virtual void broadcast(
      void* data,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) = 0;
  // `count` elements of each rank.
  virtual void all_gather(
      const void* in,
      void* out,
      std::size_t count,
      DType dtype,
      Deadline deadline) = 0;
  // `count` elements for each rank.
  virtual void reduce_scatter(
      const void* in,
      void* out,
      std::size_t count,
      DType dtype,
      ReduceOp op,
      Deadline deadline) = 0;
  // Element counts by rank; the data lies packed in rank order.
  virtual void all_to_all(
      const void* in,
      const std::vector<std::size_t>& send_counts,
      void* out,
      const std::vector<std::size_t>& receive_counts,
      DType dtype,
      Deadline deadline) = 0;
  // `out` matters on the root only.
  virtual void gather(
      const void* in,
      void* out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) = 0;
  // `in` matters on the root only.
  virtual void scatter(
      const void* in,
      void* out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) = 0;

  // Ends all operations of all members, now and later, with PeerLost. May be
  // called by any thread at any time.
  virtual void abort(const std::string& reason) = 0;
};

} // namespace argosy::comm
