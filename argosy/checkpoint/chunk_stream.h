#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/fs/file_system.h"

namespace argosy::checkpoint {

// Bytes of a file, at most kChunkBytes.
struct ChunkRange {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
};

// Reads ranges by threads, ahead of their use, into a few buffers. Each thread
// has one file open at a time. Torch-free. Its user is one thread.
class ChunkStream {
 public:
  // Opens the file of a range; called by the threads.
  using Open =
      std::function<std::unique_ptr<fs::Reader>(const ChunkRange& range)>;

  ChunkStream(std::vector<ChunkRange> ranges, Open open, Deadline deadline);
  ~ChunkStream(); // stops reading
  ChunkStream(const ChunkStream&) = delete;
  ChunkStream& operator=(const ChunkStream&) = delete;

  // The next range, valid until the next call. Throws what reading it threw;
  // there is no next one then.
  std::span<std::byte> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::checkpoint
