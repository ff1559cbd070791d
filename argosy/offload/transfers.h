#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "argosy/offload/block_io.h"

namespace argosy::offload {

// Transfers in blocks: which are to be started, and which transfers are done.
// Not thread-safe.
class Transfers {
 public:
  struct Block {
    BlockIo::Ticket ticket = 0;
    Transfer rest; // what is not done of it
  };

  explicit Transfers(const ScratchFile& file) : file_(file) {}

  BlockIo::Ticket add(const Transfer& transfer);

  // The next block to start; none when all are.
  std::optional<Block> take();

  // What the system said about a block: bytes, or a negative error. Of a short
  // one the rest will be taken again.
  void finish(Block block, std::int64_t result);

  bool is_done(BlockIo::Ticket ticket) const;
  bool is_idle() const { return num_started_ == 0 && waiting_.empty(); }
  int num_started() const { return num_started_; }

  // Drops what has not been started.
  void forget_waiting();

  // Forgets a transfer that is done. Throws SystemError when it failed.
  void close(BlockIo::Ticket ticket);
  [[noreturn]] void time_out(
      BlockIo::Ticket ticket, const Deadline& deadline) const;

 private:
  struct Progress {
    Transfer whole;
    std::int64_t blocks_left = 0;
    int error = 0; // the first
  };

  const ScratchFile& file_;
  std::map<BlockIo::Ticket, Progress> open_;
  std::deque<Block> waiting_;
  int num_started_ = 0;
  BlockIo::Ticket next_ = 0;
};

} // namespace argosy::offload
