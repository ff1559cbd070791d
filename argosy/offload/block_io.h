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

// Reads and writes of a file that go on while the caller does something else.
// Offsets, sizes and memory are aligned as ScratchFile says. For one thread.
// The destructor waits for what is under way.
class BlockIo {
 public:
  using Ticket = std::uint64_t;

  virtual ~BlockIo() = default;

  // `memory` must stay until the transfer is done.
  virtual Ticket start(const Transfer& transfer) = 0;

  // Whether wait() would return at once.
  virtual bool is_done(Ticket ticket) = 0;

  // Until it is done. Throws TimeoutError, after which it goes on.
  virtual void wait(Ticket ticket, const Deadline& deadline) = 0;

  // Forgets a transfer that is done. Throws SystemError when it failed.
  virtual void close(Ticket ticket) = 0;
};

// By io_uring; null where the kernel has none or refuses it.
std::unique_ptr<BlockIo> make_uring_io(const ScratchFile& file);

// By threads that block.
std::unique_ptr<BlockIo> make_thread_io(const ScratchFile& file);

} // namespace argosy::offload
