#include "argosy/checkpoint/import/pickle_stream.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::uint64_t kMostTextBytes = std::uint64_t{256} << 20;
constexpr std::size_t kMostLineBytes = 4096;

} // namespace

PickleStream::PickleStream(Source source, std::uint64_t offset)
    : source_(std::move(source)), next_(offset) {}

std::string PickleStream::take(std::uint64_t bytes) {
  const std::uint64_t left = source_->size() - offset();
  if (bytes > kMostTextBytes || bytes > left) {
    throw CheckpointError(
        str("[checkpoint.pickle] ",
            file(),
            ", byte ",
            place(),
            ": expected ",
            bytes,
            " bytes, but ",
            left,
            " are left; the file is truncated or damaged"));
  }
  std::string text;
  text.reserve(bytes);
  while (text.size() < bytes) {
    fill();
    const std::size_t part =
        std::min<std::size_t>(bytes - text.size(), buffer_.size() - used_);
    text.append(buffer_, used_, part);
    used_ += part;
  }
  return text;
}

std::uint8_t PickleStream::byte() {
  fill();
  return static_cast<std::uint8_t>(buffer_[used_++]);
}

std::string PickleStream::line() {
  std::string text;
  for (char c = 0; (c = static_cast<char>(byte())) != '\n';) {
    if (text.size() == kMostLineBytes) {
      throw CheckpointError(
          str("[checkpoint.pickle] ",
              file(),
              ", byte ",
              place(),
              ": a line of more than ",
              kMostLineBytes,
              " bytes"));
    }
    text.push_back(c);
  }
  return text;
}

void PickleStream::fill() {
  if (used_ < buffer_.size()) {
    return;
  }
  constexpr std::uint64_t kBuffer = 1 << 16;
  const std::uint64_t left = source_->size() - next_;
  std::string bytes(std::max<std::uint64_t>(std::min(kBuffer, left), 1), 0);
  source_->read(next_, std::as_writable_bytes(std::span(bytes)));
  next_ += bytes.size();
  buffer_ = std::move(bytes);
  used_ = 0;
}

} // namespace argosy::checkpoint
