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

// Buffers that are in a file while they are not used, except for as many as the
// memory budget allows. Each rank has its own tier. The file has no name and
// disappears with the process.
//
//   OffloadTier tier(
//       {.offload_path = "/scratch", .offload_cpu_size = 1 << 30});
//   const std::size_t slot = tier.add(bytes);
//   at::Tensor memory = tier.fetch(slot); // kByte; use memory.view(dtype)
//   ...
//   tier.put_back(slot); // `memory` is invalid now
//
// The tier expects that buffers are used in the order in which they were added,
// in repeated rounds with a pause in between; set_schedule() sets another
// order. While one buffer is in use, the next is read and the previous one is
// written. Other orders of use work too, but wait for the disk.
//
// Memory holds the buffers in use, up to `offload_cpu_size` bytes of unused
// buffers, the buffers of the next `ahead` steps, and one buffer that is being
// written.
//
// Disk errors throw SystemError with the path, the size and the free space. A
// failed write throws at a later call and loses no buffer. A wait longer than
// the option `timeout` throws TimeoutError. Not thread-safe.
class OffloadTier {
 public:
  explicit OffloadTier(OffloadOptions options = {});
  ~OffloadTier();
  OffloadTier(OffloadTier&&) noexcept;
  OffloadTier& operator=(OffloadTier&&) = delete;

  // Adds a zeroed buffer and returns its slot. Throws InvalidArgument if
  // `bytes` is below 1.
  std::size_t add(std::int64_t bytes);

  // Sets what each step of a round uses; a step that uses nothing is a pause.
  // Throws InvalidArgument as plan_offload() does.
  void set_schedule(std::vector<std::vector<OffloadUse>> steps);

  // Starts to read a buffer before the schedule would.
  void prefetch(std::size_t slot);

  // Blocks until the buffer is in memory. The result, of type kByte, is valid
  // until put_back(). Throws InvalidArgument if the buffer is in use.
  at::Tensor fetch(std::size_t slot);

  // Ends the use. If `written` is false, the buffer must be unchanged.
  void put_back(std::size_t slot, bool written = true);

  // The plan of a round.
  const OffloadPlan& plan();
  OffloadStats stats() const;

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::offload
