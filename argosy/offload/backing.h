#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "argosy/common/deadline.h"
#include "argosy/offload/options.h"

// Where the buffers of an OffloadTier are. Not installed.
namespace argosy::offload {

// Buffers of bytes, each in memory or in a file. New buffers are zeros. Not
// thread-safe.
class Backing {
 public:
  virtual ~Backing() = default;

  virtual std::size_t add(std::int64_t bytes) = 0;

  // Starts to bring a buffer into memory.
  virtual void prefetch(std::size_t slot) = 0;

  // Blocks until the buffer is in memory. The result is valid until release().
  virtual at::Tensor get(std::size_t slot, const Deadline& deadline) = 0;

  // The buffer has changed and stays in memory.
  virtual void touch(std::size_t slot) = 0;

  // Lets the buffer leave memory; changes are written to the file first. Waits
  // for the previous write, so that at most one buffer is being written.
  virtual void release(std::size_t slot, const Deadline& deadline) = 0;

  virtual OffloadStats stats() const = 0;
};

// Copies buffers between memory and the file.
std::unique_ptr<Backing> make_streamed(const OffloadOptions& options);

// Maps the file into memory.
std::unique_ptr<Backing> make_mapped(const OffloadOptions& options);

} // namespace argosy::offload
