#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/fs/stream.h"

namespace argosy::data {

// The lines of a stream. Not installed.
class LineReader {
 public:
  // `limit`: of one read from the stream. A line longer than `longest` bytes:
  // InvalidArgument.
  LineReader(
      std::unique_ptr<fs::ByteStream> stream,
      std::chrono::milliseconds limit,
      std::size_t longest = std::size_t{64} << 20);

  // The next line without its end; valid until the next call. The last line
  // needs no end. nullopt: there are no more.
  std::optional<std::string_view> next();

  std::int64_t line() const { return line_; }   // number of that line, from 1
  std::int64_t bytes() const { return bytes_; } // read from the stream so far
  std::string name() const { return stream_->name(); }

 private:
  bool fill();

  const std::unique_ptr<fs::ByteStream> stream_;
  const std::chrono::milliseconds limit_;
  const std::size_t longest_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;   // of what has not been returned
  std::size_t scanned_ = 0; // up to here there is no end of a line
  std::size_t end_ = 0;
  bool at_end_ = false;
  std::int64_t line_ = 0;
  std::int64_t bytes_ = 0;
};

} // namespace argosy::data
