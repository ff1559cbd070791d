#include "argosy/fs/compressed.h"

#include <zlib.h>
#include <zstd.h>

#include <utility>
#include <vector>

#include "argosy/fs/error.h"

namespace argosy::fs {

namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;

// What has been read of the compressed file, and not yet decompressed.
class Input {
 public:
  explicit Input(std::unique_ptr<ByteStream> stream)
      : stream_(std::move(stream)), buffer_(kBuffer) {}

  // Makes sure that there is something; false at the end of the file.
  bool fill(Deadline deadline) {
    if (left_.empty()) {
      left_ = std::span(buffer_).first(stream_->read(buffer_, deadline));
    }
    return !left_.empty();
  }

  std::span<char> left() const { return left_; }
  void take(std::size_t bytes) {
    left_ = left_.subspan(bytes);
    offset_ += bytes;
  }

  std::string name() const { return stream_->name(); }

  [[noreturn]] void fail(const char* format, const std::string& what) const {
    throw FsError(
        Failure::Broken,
        str_format(
            "[fs.read] {}: {} at byte {} of the {} file",
            name(),
            what,
            offset_,
            format));
  }

 private:
  const std::unique_ptr<ByteStream> stream_;
  std::vector<char> buffer_;
  std::span<char> left_;
  std::uint64_t offset_ = 0; // in the compressed file
};

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<ByteStream> compressed)
      : input_(std::move(compressed)) {
    constexpr int kGzip = 16 + MAX_WBITS;
    if (::inflateInit2(&zlib_, kGzip) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~GzipStream() override { ::inflateEnd(&zlib_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<char> into, Deadline deadline) override {
    zlib_.next_out = reinterpret_cast<Bytef*>(into.data());
    zlib_.avail_out = static_cast<uInt>(std::min(into.size(), kBuffer));
    const uInt room = zlib_.avail_out;
    while (zlib_.avail_out == room) {
      if (!input_.fill(deadline)) {
        if (in_member_) {
          input_.fail("gzip", "it ends in the middle");
        }
        return 0;
      }
      step();
    }
    return room - zlib_.avail_out;
  }

  std::string name() const override { return input_.name(); }

 private:
  void step() {
    if (!in_member_) {
      ::inflateReset(&zlib_);
      in_member_ = true;
    }
    const std::span<char> left = input_.left();
    zlib_.next_in = reinterpret_cast<Bytef*>(left.data());
    zlib_.avail_in = static_cast<uInt>(left.size());
    const int result = ::inflate(&zlib_, Z_NO_FLUSH);
    input_.take(left.size() - zlib_.avail_in);
    if (result == Z_STREAM_END) {
      in_member_ = false;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      input_.fail("gzip", zlib_.msg != nullptr ? zlib_.msg : "it is damaged");
    }
  }

  Input input_;
  z_stream zlib_{};
  bool in_member_ = false;
};

struct FreeZstd {
  void operator()(ZSTD_DCtx* context) const { ::ZSTD_freeDCtx(context); }
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(std::unique_ptr<ByteStream> compressed)
      : input_(std::move(compressed)), zstd_(::ZSTD_createDCtx()) {
    if (!zstd_) {
      throw std::bad_alloc();
    }
  }

  std::size_t read(std::span<char> into, Deadline deadline) override {
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    while (out.pos == 0) {
      if (!input_.fill(deadline)) {
        if (in_frame_) {
          input_.fail("zstd", "it ends in the middle");
        }
        return 0;
      }
      const std::span<char> left = input_.left();
      ZSTD_inBuffer in{left.data(), left.size(), 0};
      const std::size_t result =
          ::ZSTD_decompressStream(zstd_.get(), &out, &in);
      input_.take(in.pos);
      if (::ZSTD_isError(result) != 0) {
        input_.fail("zstd", ::ZSTD_getErrorName(result));
      }
      in_frame_ = result != 0;
    }
    return out.pos;
  }

  std::string name() const override { return input_.name(); }

 private:
  Input input_;
  const std::unique_ptr<ZSTD_DCtx, FreeZstd> zstd_;
  bool in_frame_ = false;
};

} // namespace

std::unique_ptr<ByteStream> make_gzip_stream(
    std::unique_ptr<ByteStream> compressed) {
  return std::make_unique<GzipStream>(std::move(compressed));
}

std::unique_ptr<ByteStream> make_zstd_stream(
    std::unique_ptr<ByteStream> compressed) {
  return std::make_unique<ZstdStream>(std::move(compressed));
}

} // namespace argosy::fs
