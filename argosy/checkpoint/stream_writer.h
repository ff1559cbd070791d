#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "argosy/checkpoint/huge_buffer.h"
#include "argosy/common/deadline.h"
#include "argosy/fs/file_system.h"

namespace argosy::checkpoint {

// Buffers that are kept from one StreamWriter to the next: the first use of
// their pages takes long where memory is in pieces. Not thread-safe.
class WriteBuffers {
 public:
  // Throws SystemError if there is no memory.
  std::unique_ptr<HugeBuffer> take();
  void give_back(std::unique_ptr<HugeBuffer> buffer);

 private:
  std::vector<std::unique_ptr<HugeBuffer>> idle_;
};

// Writes one file after the other beside the caller, who prepares the next
// bytes meanwhile. Bytes are copied into aligned buffers, so that they can pass
// the page cache by. Not thread-safe.
class StreamWriter {
 public:
  explicit StreamWriter(WriteBuffers& buffers); // which must outlive it
  ~StreamWriter();                              // gives up the open file
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
