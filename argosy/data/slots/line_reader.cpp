#include "argosy/data/slots/line_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::data {

namespace {
constexpr std::size_t kBuffer = std::size_t{1} << 20;
} // namespace

LineReader::LineReader(
    std::unique_ptr<fs::ByteStream> stream,
    std::chrono::milliseconds limit,
    std::size_t longest)
    : stream_(std::move(stream)),
      limit_(limit),
      longest_(longest),
      buffer_(std::min(kBuffer, longest)) {}

std::optional<std::string_view> LineReader::next() {
  for (;;) {
    const char* const from = buffer_.data() + scanned_;
    const void* const newline = std::memchr(from, '\n', end_ - scanned_);
    const bool is_last = newline == nullptr && at_end_;
    if (is_last && begin_ == end_) {
      return std::nullopt;
    }
    if (newline != nullptr || is_last) {
      const std::size_t stop = newline == nullptr
          ? end_
          : static_cast<std::size_t>(
                static_cast<const char*>(newline) - buffer_.data());
      const std::string_view line(buffer_.data() + begin_, stop - begin_);
      begin_ = scanned_ = std::min(stop + 1, end_);
      ++line_;
      return line;
    }
    scanned_ = end_;
    at_end_ = !fill();
  }
}

// Reads more behind what is there; false at the end of the stream.
bool LineReader::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    scanned_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    ARGOSY_CHECK(
        end_ < longest_,
        "[data.lines] {}, line {} has more than {} bytes",
        name(),
        line_ + 1,
        longest_);
    buffer_.resize(std::min(2 * buffer_.size(), longest_));
  }
  const std::size_t bytes =
      stream_->read(std::span(buffer_).subspan(end_), Deadline::after(limit_));
  end_ += bytes;
  bytes_ += static_cast<std::int64_t>(bytes);
  return bytes > 0;
}

} // namespace argosy::data
