#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace argosy::data {

// The fields of one serialized message of protobuf, one after another. Reads
// never go beyond the message. Not installed.
class ProtobufReader {
 public:
  enum class Wire : std::uint8_t {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5
  };
  enum class Step { Field, End, Bad };

  explicit ProtobufReader(std::string_view message) : left_(message) {}

  // Reads the next field.
  Step next();

  std::uint64_t number() const { return number_; }
  Wire wire() const { return wire_; }
  // Of a Varint.
  std::uint64_t varint() const { return varint_; }
  // Of the other kinds, without the length.
  std::string_view bytes() const { return bytes_; }
  bool is(std::uint64_t number, Wire wire) const {
    return number_ == number && wire_ == wire;
  }

  // What has not been read: where a bad field begins.
  std::string_view left() const { return left_; }

  // Takes a number from the front of `bytes`; false if there is none.
  static bool take_varint(std::string_view& bytes, std::uint64_t& value);

 private:
  bool take(std::string_view& from, std::uint64_t size);

  std::string_view left_;
  std::uint64_t number_ = 0;
  Wire wire_ = Wire::Varint;
  std::uint64_t varint_ = 0;
  std::string_view bytes_;
};

} // namespace argosy::data
