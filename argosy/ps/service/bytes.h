#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "argosy/common/error.h"

// How the heads of the parameter server's messages and the records of its log
// are written: fields one after the other, little-endian, texts with a length
// in front.
namespace argosy::ps {

class ByteWriter {
 public:
  template <typename T>
  ByteWriter& put(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  ByteWriter& text(std::string_view value) {
    put(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
    return *this;
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Throws InvalidArgument, naming `what`, when the bytes end too early. Nothing
// is allocated for what the bytes do not hold.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, const char* what)
      : rest_(bytes), what_(what) {}

  template <typename T>
  T get() {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    if constexpr (std::is_same_v<T, bool>) {
      const auto value = get<std::uint8_t>();
      ARGOSY_CHECK(
          value <= 1, "[ps.{}] {} as a bool, expected 0 or 1", what_, +value);
      return value == 1;
    } else {
      T value;
      std::memcpy(&value, raw(sizeof(T)).data(), sizeof(T));
      return value;
    }
  }
  std::string text() { return std::string(raw(get<std::uint32_t>())); }

  std::string_view raw(std::size_t count) {
    ARGOSY_CHECK(
        count <= rest_.size(),
        "[ps.{}] the message ends {} bytes early",
        what_,
        count - rest_.size());
    const std::string_view front = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return front;
  }

  // A number of elements of which each takes at least `bytes_each` bytes.
  std::size_t count(std::size_t bytes_each) {
    const auto number = get<std::uint32_t>();
    ARGOSY_CHECK(
        number <= rest_.size() / bytes_each,
        "[ps.{}] {} elements announced, but {} bytes follow",
        what_,
        number,
        rest_.size());
    return number;
  }

  std::string_view rest() const { return rest_; }

  void end() const {
    ARGOSY_CHECK(
        rest_.empty(),
        "[ps.{}] {} bytes more than the message has fields",
        what_,
        rest_.size());
  }

 private:
  std::string_view rest_;
  const char* what_;
};

} // namespace argosy::ps
