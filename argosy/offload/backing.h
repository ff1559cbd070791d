#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "argosy/common/deadline.h"
#include "argosy/offload/options.h"

// What an OffloadTier is made on. Not installed.
namespace argosy::offload {

// Buffers of bytes, each in memory or in a file. Those that were never released
// are zeros at first. For one thread.
class Backing {
 public:
  virtual ~Backing() = default;

  virtual std::size_t add(std::int64_t bytes) = 0;

  // Begins to bring a buffer to memory.
  virtual void prefetch(std::size_t slot) = 0;

  // Its memory, which holds until it is released.
  virtual at::Tensor get(std::size_t slot, const Deadline& deadline) = 0;

  // It has been changed, and stays.
  virtual void touch(std::size_t slot) = 0;

  // It may leave memory; what has changed is written first. Waits for the write
  // before, so that one buffer at most is on its way out.
  virtual void release(std::size_t slot, const Deadline& deadline) = 0;

  virtual OffloadStats stats() const = 0;
};

// Copies between memory and the file.
std::unique_ptr<Backing> make_streamed(const OffloadOptions& options);

// The file as memory.
std::unique_ptr<Backing> make_mapped(const OffloadOptions& options);

} // namespace argosy::offload
