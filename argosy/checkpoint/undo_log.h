#pragma once

#include <cstddef>
#include <vector>

#include "argosy/checkpoint/staging.h"

namespace argosy::checkpoint {

// What was in memory that is overwritten, to bring it back. Not thread-safe.
class UndoLog {
 public:
  // Makes room for `bytes`; forgets what was kept. Throws SystemError if there
  // is no memory.
  void reset(std::size_t bytes);

  // Call it before the bytes are overwritten, once for each. Throws
  // InternalError if reset() did not make room.
  void keep(std::byte* memory, std::size_t bytes);

  // Brings back all that was kept, the latest first, and forgets it.
  void restore();

 private:
  struct Entry {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };

  Staging copies_;
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;       // copies lie one after the other
  std::vector<Entry> entries_; // in the order of their copies
};

} // namespace argosy::checkpoint
