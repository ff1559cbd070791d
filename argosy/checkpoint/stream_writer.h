#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "argosy/common/deadline.h"
#include "argosy/fs/file_system.h"

namespace argosy::checkpoint {

// Writes one file after the other beside the caller, who prepares the next
// bytes meanwhile. Bytes are copied into aligned buffers, so that they can pass
// the page cache by. Not thread-safe.
class StreamWriter {
 public:
  StreamWriter();
  ~StreamWriter(); // gives up the open file
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  // Ends the file before it, if there is one, without waiting. Errors of
  // earlier files are thrown by any later call.
  void open(
      fs::FileSystem& files,
      const std::string& path,
      std::uint64_t bytes,
      Deadline deadline);
  void write(std::span<const std::byte> bytes);
  // Waits until all files are written and committed.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::checkpoint
