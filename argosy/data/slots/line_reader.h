#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "argosy/data/slots/buffered_stream.h"

namespace argosy::data {

// The lines of a stream. Not installed.
class LineReader {
 public:
  // `limit`: of one read from the stream. A line longer than `longest` bytes:
  // InvalidArgument.
  LineReader(
      std::unique_ptr<fs::ByteStream> stream,
      std::chrono::milliseconds limit,
      std::size_t longest = std::size_t{64} << 20)
      : stream_(std::move(stream), limit, longest) {}

  // The next line without its end; valid until the next call. The last line
  // needs no end. nullopt: there are no more.
  std::optional<std::string_view> next();

  std::int64_t line() const { return line_; } // number of that line, from 1
  std::string name() const { return stream_.name(); }

 private:
  BufferedStream stream_;
  bool at_end_ = false;
  std::int64_t line_ = 0;
};

} // namespace argosy::data
