#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "argosy/common/error.h"
#include "argosy/data/mapped_file.h"

namespace argosy::data {

// Reads the fields of a file header one after the other, without alignment.
// Errors name the file, field, offset and what was expected.
class FieldReader {
 public:
  explicit FieldReader(const MappedFile& file) : file_(file) {}

  template <typename T>
  T next(const char* field) {
    T value;
    std::memcpy(&value, next_bytes(field, sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::span<const std::byte> next_bytes(const char* field, std::size_t size) {
    field_ = field;
    field_offset_ = offset_;
    ARGOSY_CHECK(
        size <= file_.size() - offset_,
        "{}: the file ends at {}, expected {} bytes more",
        where(),
        file_.size(),
        size);
    offset_ += size;
    return file_.bytes().subspan(field_offset_, size);
  }

  // Checks the field that was read last.
  template <typename Value, typename Expected>
  void check(bool good, const Value& value, const Expected& expected) const {
    ARGOSY_CHECK(good, "{} is {}, expected {}", where(), value, expected);
  }

  void check_file_size(std::size_t expected) const {
    ARGOSY_CHECK(
        file_.size() == expected,
        "[data.tokens] {}: {} bytes, expected {} by the header",
        file_.name(),
        file_.size(),
        expected);
  }

  std::size_t bytes_left() const { return file_.size() - offset_; }

 private:
  std::string where() const {
    return str_format(
        "[data.tokens] {}, offset {}: {}", file_.name(), field_offset_, field_);
  }

  const MappedFile& file_;
  std::size_t offset_ = 0; // of the next field; never beyond the end
  const char* field_ = "";
  std::size_t field_offset_ = 0;
};

} // namespace argosy::data
