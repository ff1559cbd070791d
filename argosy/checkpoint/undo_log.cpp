#include "argosy/checkpoint/undo_log.h"

#include <cstring>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

void UndoLog::reset(std::size_t bytes) {
  copies_.reset(bytes);
  begin_ = bytes > 0 ? copies_.take(bytes) : nullptr;
  size_ = bytes;
  used_ = 0;
  entries_.clear();
}

void UndoLog::keep(std::byte* memory, std::size_t bytes) {
  ARGOSY_ASSERT(used_ + bytes <= size_);
  // Past the caches: nobody reads the copy soon.
  comm::copy(begin_ + used_, memory, bytes, true);
  used_ += bytes;
  if (!entries_.empty() &&
      entries_.back().memory + entries_.back().bytes == memory) {
    entries_.back().bytes += bytes;
  } else {
    entries_.push_back({memory, bytes});
  }
}

void UndoLog::restore() {
  while (!entries_.empty()) {
    const Entry entry = entries_.back();
    entries_.pop_back();
    used_ -= entry.bytes;
    std::memcpy(entry.memory, begin_ + used_, entry.bytes);
  }
}

} // namespace argosy::checkpoint
