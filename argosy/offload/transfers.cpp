#include "argosy/offload/transfers.h"

#include <algorithm>
#include <cerrno>

#include "argosy/common/error.h"
#include "argosy/offload/scratch_file.h"

namespace argosy::offload {

namespace {

// Large enough for disks to be efficient, small enough that several are under
// way.
constexpr std::int64_t kBlockBytes = 1 << 20;

const char* name_of(const Transfer& transfer) {
  return transfer.writes ? "write" : "read";
}

Transfer part_of(const Transfer& whole, std::int64_t begin, std::int64_t end) {
  return {
      whole.writes, whole.offset + begin, whole.memory + begin, end - begin};
}

} // namespace

BlockIo::Ticket Transfers::add(const Transfer& transfer) {
  const BlockIo::Ticket ticket = next_++;
  Progress& progress = open_[ticket];
  progress.whole = transfer;
  for (std::int64_t at = 0; at < transfer.bytes; at += kBlockBytes) {
    const std::int64_t end = std::min(at + kBlockBytes, transfer.bytes);
    waiting_.push_back({ticket, part_of(transfer, at, end)});
    ++progress.blocks_left;
  }
  return ticket;
}

std::optional<Transfers::Block> Transfers::take() {
  if (waiting_.empty()) {
    return std::nullopt;
  }
  const Block block = waiting_.front();
  waiting_.pop_front();
  ++num_started_;
  return block;
}

void Transfers::finish(Block block, std::int64_t result) {
  --num_started_;
  const bool again = result == -EINTR || result == -EAGAIN;
  if (again || (result > 0 && result < block.rest.bytes)) {
    block.rest = part_of(block.rest, again ? 0 : result, block.rest.bytes);
    // A short transfer continues where it stopped, ahead of later blocks.
    waiting_.push_front(block);
    return;
  }
  Progress& progress = open_.at(block.ticket);
  --progress.blocks_left;
  if (result <= 0 && progress.error == 0) {
    progress.error = result == 0 ? EIO : static_cast<int>(-result);
  }
}

bool Transfers::is_done(BlockIo::Ticket ticket) const {
  return open_.at(ticket).blocks_left == 0;
}

void Transfers::forget_waiting() {
  waiting_.clear();
}

void Transfers::close(BlockIo::Ticket ticket) {
  const Progress progress = open_.at(ticket);
  open_.erase(ticket);
  if (progress.error != 0) {
    throw SystemError(file_.failure(
        name_of(progress.whole), progress.whole.bytes, progress.error));
  }
}

void Transfers::time_out(
    BlockIo::Ticket ticket, const Deadline& deadline) const {
  const Progress& progress = open_.at(ticket);
  throw TimeoutError(str_format(
      "[offload.{}] {} blocks of {} bytes are missing after {}",
      name_of(progress.whole),
      progress.blocks_left,
      progress.whole.bytes,
      deadline.limit_text()));
}

} // namespace argosy::offload
