#include "argosy/checkpoint/convert/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <chrono>

#include "argosy/checkpoint/import/little_endian.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::chrono::minutes kWriteLimit{5};
constexpr std::uint64_t kDataAlignment = 64;
constexpr std::uint64_t kLocalHeaderBytes = 30;
constexpr std::uint64_t kIn64Size = 0xffffffff;
// Checksum and sizes follow the contents; names are UTF-8.
constexpr std::uint16_t kFlags = 0x0808;
constexpr std::uint16_t kVersion = 45; // zip64
constexpr std::uint16_t kDate = 0x21; // 1980-01-01: files do not depend on time
constexpr std::uint16_t kPaddingId = 0x4246; // as torch has it

std::uint32_t low_size(std::uint64_t size) {
  return static_cast<std::uint32_t>(std::min(size, kIn64Size));
}

// Extension 1 with two sizes, which makes the sizes after the contents 64 bits
// wide, then as much as aligns the contents.
std::string local_extra(std::uint64_t header, std::size_t name) {
  std::string extra;
  append_number<std::uint16_t>(extra, 1);
  append_number<std::uint16_t>(extra, 16);
  extra.append(16, '\0');
  const std::uint64_t begin =
      header + kLocalHeaderBytes + name + extra.size() + 4;
  const std::uint64_t padding =
      (kDataAlignment - begin % kDataAlignment) % kDataAlignment;
  append_number<std::uint16_t>(extra, kPaddingId);
  append_number<std::uint16_t>(extra, static_cast<std::uint16_t>(padding));
  extra.append(padding, 'Z');
  return extra;
}

} // namespace

ZipWriter::ZipWriter(fs::Writer& out) : out_(out) {}

void ZipWriter::put(std::string_view bytes) {
  out_.write(
      std::as_bytes(std::span(bytes.data(), bytes.size())),
      Deadline::after(kWriteLimit));
  offset_ += bytes.size();
}

void ZipWriter::begin(const std::string& name, std::uint64_t bytes) {
  end_entry();
  entries_.push_back({name, offset_, bytes, 0});
  left_ = bytes;
  open_ = true;
  const std::string extra = local_extra(offset_, name.size());
  std::string header;
  append_number<std::uint32_t>(header, 0x04034b50);
  append_number<std::uint16_t>(header, kVersion);
  append_number<std::uint16_t>(header, kFlags);
  append_number<std::uint16_t>(header, 0); // stored
  append_number<std::uint16_t>(header, 0); // time
  append_number<std::uint16_t>(header, kDate);
  append_number<std::uint32_t>(header, 0); // checksum: later
  append_number<std::uint32_t>(header, static_cast<std::uint32_t>(kIn64Size));
  append_number<std::uint32_t>(header, static_cast<std::uint32_t>(kIn64Size));
  append_number(header, static_cast<std::uint16_t>(name.size()));
  append_number(header, static_cast<std::uint16_t>(extra.size()));
  put(header + name + extra);
}

void ZipWriter::write(std::span<const std::byte> bytes) {
  ARGOSY_ASSERT(open_ && bytes.size() <= left_);
  Entry& entry = entries_.back();
  entry.crc = static_cast<std::uint32_t>(::crc32_z(
      entry.crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  left_ -= bytes.size();
  put({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void ZipWriter::end_entry() {
  if (!open_) {
    return;
  }
  ARGOSY_ASSERT(left_ == 0, "an entry of the zip file is incomplete");
  open_ = false;
  std::string sizes;
  append_number<std::uint32_t>(sizes, 0x08074b50);
  append_number(sizes, entries_.back().crc);
  append_number(sizes, entries_.back().bytes);
  append_number(sizes, entries_.back().bytes);
  put(sizes);
}

void ZipWriter::add(const std::string& name, std::string_view bytes) {
  begin(name, bytes.size());
  write(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

void ZipWriter::append_directory_entry(std::string& out, const Entry& entry) {
  std::string extra;
  if (entry.bytes >= kIn64Size) {
    append_number(extra, entry.bytes);
    append_number(extra, entry.bytes);
  }
  if (entry.header >= kIn64Size) {
    append_number(extra, entry.header);
  }
  if (!extra.empty()) {
    std::string head;
    append_number<std::uint16_t>(head, 1);
    append_number(head, static_cast<std::uint16_t>(extra.size()));
    extra = head + extra;
  }
  append_number<std::uint32_t>(out, 0x02014b50);
  append_number<std::uint16_t>(out, kVersion);
  append_number<std::uint16_t>(out, kVersion);
  append_number<std::uint16_t>(out, kFlags);
  append_number<std::uint16_t>(out, 0); // stored
  append_number<std::uint16_t>(out, 0); // time
  append_number<std::uint16_t>(out, kDate);
  append_number(out, entry.crc);
  append_number(out, low_size(entry.bytes));
  append_number(out, low_size(entry.bytes));
  append_number(out, static_cast<std::uint16_t>(entry.name.size()));
  append_number(out, static_cast<std::uint16_t>(extra.size()));
  out.append(10, '\0'); // comment, disk, attributes
  append_number(out, low_size(entry.header));
  out += entry.name + extra;
}

void ZipWriter::finish() {
  end_entry();
  const std::uint64_t begin = offset_;
  std::string directory;
  for (const Entry& entry : entries_) {
    append_directory_entry(directory, entry);
  }
  put(directory);
  const std::uint64_t count = entries_.size();
  const std::uint64_t end = offset_;
  std::string tail;
  if (begin >= kIn64Size || directory.size() >= kIn64Size || count >= 0xffff) {
    append_number<std::uint32_t>(tail, 0x06064b50);
    append_number<std::uint64_t>(tail, 44);
    append_number<std::uint16_t>(tail, kVersion);
    append_number<std::uint16_t>(tail, kVersion);
    append_number<std::uint64_t>(tail, 0); // disks
    append_number(tail, count);
    append_number(tail, count);
    append_number<std::uint64_t>(tail, directory.size());
    append_number(tail, begin);
    append_number<std::uint32_t>(tail, 0x07064b50); // locator
    append_number<std::uint32_t>(tail, 0);
    append_number(tail, end);
    append_number<std::uint32_t>(tail, 1);
  }
  const auto short_count =
      static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 0xffff));
  append_number<std::uint32_t>(tail, 0x06054b50);
  append_number<std::uint32_t>(tail, 0); // disks
  append_number(tail, short_count);
  append_number(tail, short_count);
  append_number(tail, low_size(directory.size()));
  append_number(tail, low_size(begin));
  append_number<std::uint16_t>(tail, 0); // comment
  put(tail);
}

} // namespace argosy::checkpoint
