#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "argosy/offload/block_io.h"

namespace argosy::offload {

// Splits transfers into blocks, and tracks which blocks are to be started and
// which transfers are done. Not thread-safe.
class Transfers {
 public:
  struct Block {
    BlockIo::Ticket ticket = 0;
    Transfer rest; // the part that is not done
  };

  explicit Transfers(const ScratchFile& file) : file_(file) {}

  BlockIo::Ticket add(const Transfer& transfer);

  // The next block to start; none if all are started.
  std::optional<Block> take();

  // Reports the result of a block: the number of bytes, or a negative error. If
  // it was short, take() returns the rest.
  void finish(Block block, std::int64_t result);

  bool is_done(BlockIo::Ticket ticket) const;
  bool is_idle() const { return num_started_ == 0 && waiting_.empty(); }
  int num_started() const { return num_started_; }

  // Drops blocks that have not been started.
  void forget_waiting();

  // Forgets a transfer that is done. Throws SystemError if it failed.
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
