#include "argosy/ps/table/text_streams.h"

#include <zlib.h>

#include <algorithm>
#include <span>
#include <vector>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

constexpr std::size_t kChunkBytes = 1u << 20;
constexpr std::size_t kLongestLine = 16u << 20;
constexpr int kGzipWindow = 15 + 16; // the largest window, and gzip's header

Bytef* bytes_of(const char* text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text));
}

} // namespace

struct TextWriter::Impl {
  std::unique_ptr<fs::Writer> file;
  bool gzip;
  z_stream stream{};
  std::string buffer = std::string(kChunkBytes, '\0');

  ~Impl() {
    if (gzip) {
      ::deflateEnd(&stream);
    }
  }

  void put(std::string_view bytes, Deadline deadline) {
    file->write(std::as_bytes(std::span(bytes)), deadline);
  }

  void compress(std::string_view text, int flush, Deadline deadline) {
    stream.next_in = bytes_of(text.data());
    stream.avail_in = static_cast<uInt>(text.size());
    do {
      stream.next_out = bytes_of(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      ::deflate(&stream, flush);
      put(std::string_view(buffer).substr(0, buffer.size() - stream.avail_out),
          deadline);
    } while (stream.avail_out == 0);
  }
};

TextWriter::TextWriter(const fs::Location& file, bool gzip, Deadline deadline)
    : impl_(new Impl{file.fs->open_write(file.path, {}, deadline), gzip}) {
  if (gzip) {
    const int status = ::deflateInit2(
        &impl_->stream,
        Z_BEST_SPEED,
        Z_DEFLATED,
        kGzipWindow,
        8,
        Z_DEFAULT_STRATEGY);
    ARGOSY_ASSERT(status == Z_OK);
  }
}

TextWriter::~TextWriter() = default;

void TextWriter::write(std::string_view text, Deadline deadline) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, kChunkBytes);
    if (impl_->gzip) {
      impl_->compress(part, Z_NO_FLUSH, deadline);
    } else {
      impl_->put(part, deadline);
    }
    text.remove_prefix(part.size());
  }
}

void TextWriter::commit(Deadline deadline) {
  if (impl_->gzip) {
    impl_->compress({}, Z_FINISH, deadline);
  }
  impl_->file->commit(deadline);
}

struct LineReader::Impl {
  std::string url;
  std::unique_ptr<fs::Reader> file;
  bool gzip;
  std::uint64_t offset = 0;
  std::string chunk; // bytes of the file that wait for inflate
  std::string text;  // text that has not been returned, from `at` on
  std::size_t at = 0;
  bool ended = false; // all of the file is in `text`
  long long number = 0;
  bool complete = false; // of a compressed file
  z_stream stream{};

  ~Impl() {
    if (gzip) {
      ::inflateEnd(&stream);
    }
  }

  [[noreturn]] void fail(const char* what) const {
    throw CheckpointError(str("[ps.load] ", url, ": ", what));
  }

  bool read_chunk(Deadline deadline) {
    const std::uint64_t left = file->size() - offset;
    chunk.resize(std::min<std::uint64_t>(left, kChunkBytes));
    if (chunk.empty()) {
      return false;
    }
    file->read_at(offset, std::as_writable_bytes(std::span(chunk)), deadline);
    offset += chunk.size();
    return true;
  }

  // Inflates what fits behind `text`, at most a chunk of it.
  void inflate_some(Deadline deadline) {
    if (stream.avail_in == 0) {
      if (!read_chunk(deadline)) {
        ended = true;
        if (!complete) {
          fail("the compressed file ends too early");
        }
        return;
      }
      stream.next_in = bytes_of(chunk.data());
      stream.avail_in = static_cast<uInt>(chunk.size());
    }
    if (complete) { // a further member
      ::inflateReset(&stream);
      complete = false;
    }
    const std::size_t before = text.size();
    text.resize(before + kChunkBytes);
    stream.next_out = bytes_of(text.data() + before);
    stream.avail_out = kChunkBytes;
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    text.resize(text.size() - stream.avail_out);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      fail("the compressed file is damaged");
    }
    complete = status == Z_STREAM_END;
  }

  void read_more(Deadline deadline) {
    text.erase(0, at);
    at = 0;
    if (text.size() > kLongestLine) {
      fail("a line has more than 16 MB");
    }
    if (gzip) {
      inflate_some(deadline);
    } else if (read_chunk(deadline)) {
      text += chunk;
    } else {
      ended = true;
    }
  }
};

LineReader::LineReader(const fs::Location& file, bool gzip, Deadline deadline)
    : impl_(new Impl{
          file.fs->url(file.path),
          file.fs->open_read(file.path, {}, deadline),
          gzip}) {
  if (gzip) {
    const int status = ::inflateInit2(&impl_->stream, kGzipWindow);
    ARGOSY_ASSERT(status == Z_OK);
  }
}

LineReader::~LineReader() = default;

bool LineReader::next(std::string_view& line, Deadline deadline) {
  std::size_t searched = 0;
  while (true) {
    const std::string_view rest =
        std::string_view(impl_->text).substr(impl_->at);
    const std::size_t end = rest.find('\n', searched);
    if (end != std::string_view::npos || (impl_->ended && !rest.empty())) {
      line = rest.substr(0, end);
      impl_->at += std::min(rest.size(), line.size() + 1);
      ++impl_->number;
      return true;
    }
    if (impl_->ended) {
      return false;
    }
    searched = rest.size();
    impl_->read_more(deadline);
  }
}

long long LineReader::number() const {
  return impl_->number;
}

const std::string& LineReader::url() const {
  return impl_->url;
}

} // namespace argosy::ps
