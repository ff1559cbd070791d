#include "argosy/checkpoint/import/zip_reader.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "argosy/checkpoint/import/little_endian.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/fs/local.h"

namespace argosy::checkpoint {

namespace {

constexpr std::uint32_t kLocalMagic = 0x04034b50;
constexpr std::uint32_t kEntryMagic = 0x02014b50;
constexpr std::uint32_t kEndMagic = 0x06054b50;
constexpr std::uint32_t kEnd64Magic = 0x06064b50;
constexpr std::uint32_t kLocator64Magic = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::uint64_t kMostDirectoryBytes = std::uint64_t{1} << 30;
constexpr std::uint32_t kIn64 = 0xffffffff; // the number is in the extension
// Deflate packs at most 1032 bytes into one.
constexpr std::uint64_t kMostDeflated = 1032;

std::string read_string(
    const ByteSource& file, std::uint64_t offset, std::uint64_t bytes) {
  std::string text(bytes, '\0');
  file.read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

// The 64-bit numbers of an entry stand in extension 1, in this order, for those
// that do not fit.
void read_extension64(std::string_view extra, ZipEntry& entry) {
  while (extra.size() >= 4) {
    const auto id = load_number<std::uint16_t>(extra, 0);
    const auto size = load_number<std::uint16_t>(extra, 2);
    extra.remove_prefix(4);
    if (size > extra.size()) {
      return;
    }
    std::string_view body = extra.substr(0, size);
    extra.remove_prefix(size);
    if (id != 1) {
      continue;
    }
    for (std::uint64_t* field : {&entry.bytes, &entry.packed, &entry.header}) {
      if (*field == kIn64 && body.size() >= 8) {
        *field = load_number<std::uint64_t>(body, 0);
        body.remove_prefix(8);
      }
    }
  }
}

// Unpacks by pieces, so that memory stays small.
class Inflater {
 public:
  explicit Inflater(std::string name) : name_(std::move(name)) {
    ARGOSY_ASSERT(::inflateInit2(&stream_, -MAX_WBITS) == Z_OK);
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Calls `take` with what `packed` unpacks to. Returns whether the end was
  // reached.
  template <typename Take>
  bool add(std::span<std::byte> packed, const Take& take) {
    stream_.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream_.avail_in = static_cast<uInt>(packed.size());
    int code = Z_OK;
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      code = ::inflate(&stream_, Z_NO_FLUSH);
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        throw CheckpointError(
            str("[checkpoint.zip] ",
                name_,
                " is damaged: it cannot be "
                "unpacked"));
      }
      take(std::string_view(out_.data(), out_.size() - stream_.avail_out));
    } while (code == Z_OK && stream_.avail_out == 0);
    return code == Z_STREAM_END;
  }

 private:
  z_stream stream_{};
  std::string name_;
  std::array<char, 1 << 16> out_{};
};

void write_fully(int fd, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0) {
      throw CheckpointError(
          with_errno(str("[checkpoint.zip] unpacking ", name)));
    }
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

// Calls `take` with all bytes, one buffer after the other.
template <typename Take>
void for_each_part(const ByteSource& source, const Take& take) {
  std::vector<std::byte> buffer(1 << 16);
  for (std::uint64_t at = 0; at < source.size();) {
    const auto part = std::span(buffer).first(
        std::min<std::uint64_t>(buffer.size(), source.size() - at));
    source.read(at, part);
    take(part);
    at += part.size();
  }
}

} // namespace

void ZipReader::fail(std::uint64_t offset, const std::string& what) const {
  throw CheckpointError(
      str("[checkpoint.zip] ",
          file_->name(),
          ", byte ",
          file_->base() + offset,
          ": ",
          what));
}

bool ZipReader::is_zip(const ByteSource& file) {
  return file.size() >= kEndBytes &&
      load_number<std::uint32_t>(read_string(file, 0, 4), 0) == kLocalMagic;
}

ZipReader::ZipReader(Source file) : file_(std::move(file)) {
  const Directory directory = find_directory();
  if (directory.bytes > kMostDirectoryBytes ||
      directory.count > directory.bytes / kEntryBytes) {
    fail(
        directory.offset,
        str("a directory of ",
            directory.count,
            " entries in ",
            directory.bytes,
            " bytes is not possible"));
  }
  const std::string bytes =
      read_string(*file_, directory.offset, directory.bytes);
  std::string_view rest = bytes;
  entries_.reserve(directory.count);
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    entries_.push_back(parse_entry(rest));
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!by_name_.emplace(entries_[i].name, i).second) {
      fail(entries_[i].header, str("two entries ", entries_[i].name));
    }
  }
}

ZipReader::Directory ZipReader::find_directory() const {
  constexpr std::uint64_t kMostComment = 65535;
  const std::uint64_t window =
      std::min<std::uint64_t>(file_->size(), kEndBytes + kMostComment);
  const std::string tail = read_string(*file_, file_->size() - window, window);
  for (std::size_t back = kEndBytes; back <= tail.size(); ++back) {
    const std::string_view end =
        std::string_view(tail).substr(tail.size() - back);
    if (load_number<std::uint32_t>(end, 0) != kEndMagic) {
      continue;
    }
    const Directory directory{
        .offset = load_number<std::uint32_t>(end, 16),
        .bytes = load_number<std::uint32_t>(end, 12),
        .count = load_number<std::uint16_t>(end, 10)};
    const bool in64 = directory.offset == kIn64 || directory.bytes == kIn64 ||
        directory.count == 0xffff;
    return in64 ? find_directory64(file_->size() - back) : directory;
  }
  fail(
      file_->size(),
      "no directory of a zip file here; it is truncated or of another format");
}

ZipReader::Directory ZipReader::find_directory64(std::uint64_t end) const {
  if (end < kLocator64Bytes) {
    fail(end, "no zip64 locator");
  }
  const std::string locator =
      read_string(*file_, end - kLocator64Bytes, kLocator64Bytes);
  if (load_number<std::uint32_t>(locator, 0) != kLocator64Magic) {
    fail(end - kLocator64Bytes, "no zip64 locator");
  }
  const auto at = load_number<std::uint64_t>(locator, 8);
  if (at > file_->size() || file_->size() - at < kEnd64Bytes) {
    fail(end, "the zip64 directory lies outside of the file");
  }
  const std::string record = read_string(*file_, at, kEnd64Bytes);
  if (load_number<std::uint32_t>(record, 0) != kEnd64Magic) {
    fail(at, "no zip64 end of directory");
  }
  return {
      .offset = load_number<std::uint64_t>(record, 48),
      .bytes = load_number<std::uint64_t>(record, 40),
      .count = load_number<std::uint64_t>(record, 32)};
}

ZipEntry ZipReader::parse_entry(std::string_view& rest) const {
  if (rest.size() < kEntryBytes ||
      load_number<std::uint32_t>(rest, 0) != kEntryMagic) {
    fail(0, "the directory of the zip file is damaged");
  }
  ZipEntry entry{
      .name = {},
      .header = load_number<std::uint32_t>(rest, 42),
      .packed = load_number<std::uint32_t>(rest, 20),
      .bytes = load_number<std::uint32_t>(rest, 24),
      .crc = load_number<std::uint32_t>(rest, 16),
      .method = load_number<std::uint16_t>(rest, 10)};
  const std::size_t name = load_number<std::uint16_t>(rest, 28);
  const std::size_t extra = load_number<std::uint16_t>(rest, 30);
  const std::size_t comment = load_number<std::uint16_t>(rest, 32);
  const bool encrypted = (load_number<std::uint16_t>(rest, 8) & 1) != 0;
  rest.remove_prefix(kEntryBytes);
  if (rest.size() < name + extra + comment) {
    fail(entry.header, "the directory of the zip file is damaged");
  }
  entry.name = rest.substr(0, name);
  read_extension64(rest.substr(name, extra), entry);
  rest.remove_prefix(name + extra + comment);
  if (encrypted || (entry.method != 0 && entry.method != 8)) {
    fail(
        entry.header,
        str(entry.name, " is encrypted or packed in a way that is not read"));
  }
  if (entry.method == 0 && entry.packed != entry.bytes) {
    fail(entry.header, str(entry.name, " has two sizes"));
  }
  return entry;
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

Source ZipReader::open(const ZipEntry& entry) const {
  if (entry.header > file_->size() ||
      file_->size() - entry.header < kLocalBytes) {
    fail(entry.header, str(entry.name, " lies outside of the file"));
  }
  const std::string local = read_string(*file_, entry.header, kLocalBytes);
  if (load_number<std::uint32_t>(local, 0) != kLocalMagic) {
    fail(entry.header, str("no header of ", entry.name, " here"));
  }
  const std::uint64_t data = entry.header + kLocalBytes +
      load_number<std::uint16_t>(local, 26) +
      load_number<std::uint16_t>(local, 28);
  const Source packed = slice(file_, data, entry.packed);
  if (entry.method == 0) {
    return packed;
  }
  return unpack(entry, packed);
}

Source ZipReader::unpack(const ZipEntry& entry, const Source& packed) const {
  if (entry.bytes / kMostDeflated > entry.packed) {
    fail(entry.header, str(entry.name, " cannot unpack to ", entry.bytes));
  }
  const std::string name = str(file_->name(), " (", entry.name, ")");
  fs::LocalFile file(open_nameless(std::filesystem::temp_directory_path()));
  if (!file) {
    throw CheckpointError(with_errno(str("[checkpoint.zip] unpacking ", name)));
  }
  Inflater inflater(name);
  std::uint64_t put = 0;
  bool ended = false;
  for_each_part(*packed, [&](std::span<std::byte> part) {
    ended = ended || inflater.add(part, [&](std::string_view out) {
      put += out.size();
      if (put > entry.bytes) {
        fail(entry.header, str(entry.name, " is longer than it says"));
      }
      write_fully(file.fd(), out, name);
    });
  });
  if (put != entry.bytes) {
    fail(entry.header, str(entry.name, " is shorter than it says"));
  }
  return source_of_descriptor(::dup(file.fd()), name);
}

Source ZipReader::open_verified(const ZipEntry& entry) const {
  const Source source = open(entry);
  uLong crc = 0;
  for_each_part(*source, [&crc](std::span<std::byte> part) {
    crc = ::crc32_z(
        crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
  });
  if (crc != entry.crc) {
    fail(entry.header, str(entry.name, " is damaged: its checksum differs"));
  }
  return source;
}

} // namespace argosy::checkpoint
