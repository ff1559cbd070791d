#include "argosy/store/wire.h"

#include "argosy/common/error.h"

namespace argosy::store {

namespace {

// Little-endian whatever the host is.
template <typename Integer>
void append(std::string& bytes, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    bytes += static_cast<char>(value >> (8 * i) & 255);
  }
}

template <typename Integer>
Integer decode(std::string_view bytes) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    const Integer byte = static_cast<unsigned char>(bytes[i]);
    value |= byte << (8 * i);
  }
  return value;
}

} // namespace

WireWriter& WireWriter::u8(std::uint8_t value) {
  body_ += static_cast<char>(value);
  return *this;
}

WireWriter& WireWriter::u32(std::uint32_t value) {
  append(body_, value);
  return *this;
}

WireWriter& WireWriter::i64(std::int64_t value) {
  append(body_, static_cast<std::uint64_t>(value));
  return *this;
}

WireWriter& WireWriter::text(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  body_ += value;
  return *this;
}

WireWriter& WireWriter::optional_text(const std::optional<std::string>& value) {
  return value ? u8(1).text(*value) : u8(0);
}

WireWriter& WireWriter::texts(const std::vector<std::string>& values) {
  u32(static_cast<std::uint32_t>(values.size()));
  for (const std::string& value : values) {
    text(value);
  }
  return *this;
}

std::string_view WireReader::take(std::size_t count) {
  if (count > body_.size()) {
    throw StoreError(str_format(
        "[store.wire] message has {} bytes left, expected {}",
        body_.size(),
        count));
  }
  const std::string_view taken = body_.substr(0, count);
  body_.remove_prefix(count);
  return taken;
}

std::uint8_t WireReader::u8() {
  return decode<std::uint8_t>(take(1));
}

std::uint32_t WireReader::u32() {
  return decode<std::uint32_t>(take(4));
}

std::int64_t WireReader::i64() {
  return static_cast<std::int64_t>(decode<std::uint64_t>(take(8)));
}

std::string WireReader::text() {
  const std::size_t size = u32();
  return std::string(take(size));
}

std::string WireReader::key() {
  const std::size_t size = u32();
  if (size > kLongestKey) {
    throw StoreError(str_format(
        "[store.wire] a key of {} bytes, expected at most {}",
        size,
        kLongestKey));
  }
  return std::string(take(size));
}

std::optional<std::string> WireReader::optional_text() {
  const std::uint8_t present = u8();
  if (present > 1) {
    throw StoreError(str_format(
        "[store.wire] the mark of an optional text is {}, expected 0 or 1",
        static_cast<int>(present)));
  }
  return present == 1 ? std::optional(text()) : std::nullopt;
}

std::size_t WireReader::count(std::size_t bytes_each) {
  const std::size_t count = u32();
  if (count > body_.size() / bytes_each) {
    throw StoreError(str_format(
        "[store.wire] message announces {} elements and has {} bytes left, "
        "expected at least {} for each",
        count,
        body_.size(),
        bytes_each));
  }
  return count;
}

std::vector<std::string> WireReader::keys() {
  const std::size_t size = count(kLengthBytes);
  if (size > kMostKeys) {
    throw StoreError(str_format(
        "[store.wire] {} keys, expected at most {}", size, kMostKeys));
  }
  std::vector<std::string> values;
  values.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    values.push_back(key());
  }
  return values;
}

void WireReader::end() const {
  if (!body_.empty()) {
    throw StoreError(str_format(
        "[store.wire] message goes on for {} bytes after its last field, "
        "expected its end",
        body_.size()));
  }
}

std::string frame_header(std::size_t size) {
  std::string header;
  append(header, static_cast<std::uint32_t>(size));
  return header;
}

std::size_t frame_size(std::string_view header) {
  return decode<std::uint32_t>(header);
}

} // namespace argosy::store
