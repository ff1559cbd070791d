#pragma once

#include <cstdint>
#include <string>

#include "argosy/checkpoint/import/byte_source.h"
#include "argosy/checkpoint/import/little_endian.h"

namespace argosy::checkpoint {

// Reads forward through a buffer, so that an opcode of a byte costs no read.
class PickleStream {
 public:
  PickleStream(Source source, std::uint64_t offset);

  // Of the next byte: in the source, and in the file.
  std::uint64_t offset() const { return next_ - (buffer_.size() - used_); }
  std::uint64_t place() const { return source_->base() + offset(); }
  std::string file() const { return source_->name(); }

  // Throws CheckpointError before it allocates if there are not so many bytes.
  std::string take(std::uint64_t bytes);
  std::uint8_t byte();
  // Up to the end of the line, without it.
  std::string line();

  template <typename T>
  T number() {
    return load_number<T>(take(sizeof(T)), 0);
  }

 private:
  void fill();

  const Source source_;
  std::uint64_t next_; // first byte that is not in the buffer
  std::string buffer_;
  std::size_t used_ = 0;
};

} // namespace argosy::checkpoint
