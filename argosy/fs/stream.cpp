#include "argosy/fs/stream.h"

#include <algorithm>
#include <utility>

#include "argosy/fs/compressed.h"
#include "argosy/fs/open.h"

namespace argosy::fs {

namespace {

class FileStream final : public ByteStream {
 public:
  FileStream(std::string url, std::unique_ptr<Reader> reader)
      : url_(std::move(url)), reader_(std::move(reader)) {}

  std::size_t read(std::span<char> into, Deadline deadline) override {
    const std::size_t bytes =
        std::min<std::uint64_t>(into.size(), reader_->size() - offset_);
    if (bytes > 0) {
      reader_->read_at(
          offset_, std::as_writable_bytes(into.first(bytes)), deadline);
      offset_ += bytes;
    }
    return bytes;
  }

  std::string name() const override { return url_; }
  int descriptor() const override { return reader_->descriptor(); }

 private:
  const std::string url_;
  const std::unique_ptr<Reader> reader_;
  std::uint64_t offset_ = 0;
};

} // namespace

std::unique_ptr<ByteStream> open_stream(
    const std::string& url, Deadline deadline) {
  const Location at = open(url);
  auto stream = std::make_unique<FileStream>(
      at.fs->url(at.path), at.fs->open_read(at.path, {}, deadline));
  if (url.ends_with(".gz")) {
    return make_gzip_stream(std::move(stream));
  }
  if (url.ends_with(".zst")) {
    return make_zstd_stream(std::move(stream));
  }
  return stream;
}

} // namespace argosy::fs
