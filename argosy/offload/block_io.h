#pragma once

#include <cstdint>
#include <memory>

#include "argosy/common/deadline.h"

namespace argosy::offload {

class ScratchFile;

struct Transfer {
  bool writes = false;
  std::int64_t offset = 0;
  std::byte* memory = nullptr;
  std::int64_t bytes = 0;
};

// Asynchronous reads and writes of a file. Offsets, sizes and memory must be
// aligned as for ScratchFile. Not thread-safe. The destructor waits for
// transfers under way.
class BlockIo {
 public:
  using Ticket = std::uint64_t;

  virtual ~BlockIo() = default;

  // `memory` must stay valid until the transfer is done.
  virtual Ticket start(const Transfer& transfer) = 0;

  // Whether wait() would return at once.
  virtual bool is_done(Ticket ticket) = 0;

  // Blocks until the transfer is done. Throws TimeoutError at the deadline; the
  // transfer then continues.
  virtual void wait(Ticket ticket, const Deadline& deadline) = 0;

  // Forgets a transfer that is done. Throws SystemError if it failed.
  virtual void close(Ticket ticket) = 0;
};

// Uses io_uring. Returns null if the kernel does not have or allow it.
std::unique_ptr<BlockIo> make_uring_io(const ScratchFile& file);

// Uses threads with blocking calls.
std::unique_ptr<BlockIo> make_thread_io(const ScratchFile& file);

} // namespace argosy::offload
