#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "argosy/fs/stream.h"

namespace argosy::data {

// A stream of which the next bytes can be looked at before they are taken. Not
// installed.
class BufferedStream {
 public:
  // `limit`: of one read from the stream. `longest`: the most bytes that
  // more() keeps.
  BufferedStream(
      std::unique_ptr<fs::ByteStream> stream,
      std::chrono::milliseconds limit,
      std::size_t longest);

  // What has been read and not been taken; valid until the next more().
  std::span<const char> left() const {
    return {buffer_.data() + begin_, end_ - begin_};
  }
  void take(std::size_t bytes) { begin_ += bytes; }

  // Reads more behind what is left; false at the end of the stream. Expects
  // that less than `longest` bytes are left.
  bool more();
  // Reads until so many are left; false if the stream ends before.
  bool reach(std::size_t bytes);

  std::size_t longest() const { return longest_; }
  std::string name() const { return stream_->name(); }

 private:
  const std::unique_ptr<fs::ByteStream> stream_;
  const std::chrono::milliseconds limit_;
  const std::size_t longest_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

} // namespace argosy::data
