#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "argosy/offload/options.h"
#include "argosy/offload/plan.h"

namespace at {
class Tensor;
}

namespace argosy::offload {

// Buffers that are in a file while nobody uses them, but for as many as the
// budget lets stay. One tier belongs to one rank; its file has no name, and is
// gone with the process.
//
//   OffloadTier tier({.offload_path = "/scratch", .offload_cpu_size = 1 <<
//   30}); const std::size_t slot = tier.add(bytes); at::Tensor memory =
//   tier.fetch(slot);     // kByte; use memory.view(dtype)
//   ...
//   tier.put_back(slot);                      // `memory` is dead now
//
// Buffers are taken to be used one after the other in the order in which they
// were added, again and again, with a pause between rounds; set_schedule() says
// otherwise. While one is in use, the next is read and the last one written.
// Whoever keeps to another order than the schedule gets the same bytes, later.
//
// In memory are: the buffers in use, `offload_cpu_size` bytes of those that
// stay, those of `ahead` steps that are being read, and one that is being
// written.
//
// Errors of the disk are SystemError: path, bytes wanted, bytes free. That of a
// write shows at a later call; no buffer is lost by it. A wait that takes
// longer than the option `timeout` is a TimeoutError. Not thread-safe.
class OffloadTier {
 public:
  explicit OffloadTier(OffloadOptions options = {});
  ~OffloadTier();
  OffloadTier(OffloadTier&&) noexcept;
  OffloadTier& operator=(OffloadTier&&) = delete;

  // Zeros. Throws InvalidArgument for less than one byte.
  std::size_t add(std::int64_t bytes);

  // What each step of a round uses; steps that use nothing are pauses. Throws
  // InvalidArgument, as plan_offload().
  void set_schedule(std::vector<std::vector<OffloadUse>> steps);

  // Begins to read, for those who know better than the schedule.
  void prefetch(std::size_t slot);

  // Blocks until the buffer is in memory. The tensor is of bytes and holds
  // until put_back(). Throws InvalidArgument when it is in use already.
  at::Tensor fetch(std::size_t slot);

  // Ends the use. Without `written` the buffer must be as it was.
  void put_back(std::size_t slot, bool written = true);

  // What is to happen in a round.
  const OffloadPlan& plan();
  OffloadStats stats() const;

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::offload
