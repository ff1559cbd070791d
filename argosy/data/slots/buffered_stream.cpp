#include "argosy/data/slots/buffered_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::data {

namespace {
constexpr std::size_t kBuffer = std::size_t{1} << 20;
} // namespace

BufferedStream::BufferedStream(
    std::unique_ptr<fs::ByteStream> stream,
    std::chrono::milliseconds limit,
    std::size_t longest)
    : stream_(std::move(stream)),
      limit_(limit),
      longest_(longest),
      buffer_(std::min(kBuffer, longest)) {}

bool BufferedStream::more() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    ARGOSY_ASSERT(end_ < longest_);
    buffer_.resize(std::min(2 * buffer_.size(), longest_));
  }
  const std::size_t bytes =
      stream_->read(std::span(buffer_).subspan(end_), Deadline::after(limit_));
  end_ += bytes;
  return bytes > 0;
}

bool BufferedStream::reach(std::size_t bytes) {
  while (left().size() < bytes) {
    if (!more()) {
      return false;
    }
  }
  return true;
}

} // namespace argosy::data
