#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "argosy/common/deadline.h"

namespace argosy::fs {

// Bytes that are read from front to back, once. By one thread at a time.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Fills the front of `into`; returns how many bytes came, 0 at the end only.
  // Throws FsError, SystemError, TimeoutError.
  virtual std::size_t read(std::span<char> into, Deadline deadline) = 0;

  // For messages: the URL of the file.
  virtual std::string name() const = 0;

  // A descriptor that gives the same bytes to another process, or -1. Stays
  // this object's.
  virtual int descriptor() const { return -1; }
};

// Streams the file that a URL names. Files that end in .gz or .zst are
// decompressed.
std::unique_ptr<ByteStream> open_stream(
    const std::string& url, Deadline deadline);

} // namespace argosy::fs
