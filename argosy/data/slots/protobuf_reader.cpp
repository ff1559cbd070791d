#include "argosy/data/slots/protobuf_reader.h"

namespace argosy::data {

bool ProtobufReader::take_varint(
    std::string_view& bytes, std::uint64_t& value) {
  constexpr unsigned kMostBytes = 10;
  std::uint64_t result = 0;
  for (unsigned i = 0; i < kMostBytes && i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    result |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      value = result;
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool ProtobufReader::take(std::string_view& from, std::uint64_t size) {
  if (size > from.size()) {
    return false;
  }
  bytes_ = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

ProtobufReader::Step ProtobufReader::next() {
  if (left_.empty()) {
    return Step::End;
  }
  std::string_view rest = left_;
  std::uint64_t tag = 0;
  if (!take_varint(rest, tag) || tag >> 3 == 0) {
    return Step::Bad;
  }
  number_ = tag >> 3;
  wire_ = static_cast<Wire>(tag & 7);
  std::uint64_t size = 0;
  bool is_good = false;
  switch (wire_) {
    case Wire::Varint:
      is_good = take_varint(rest, varint_);
      break;
    case Wire::Fixed64:
      is_good = take(rest, sizeof(std::uint64_t));
      break;
    case Wire::Fixed32:
      is_good = take(rest, sizeof(std::uint32_t));
      break;
    case Wire::Bytes:
      is_good = take_varint(rest, size) && take(rest, size);
      break;
  }
  if (!is_good) {
    return Step::Bad;
  }
  left_ = rest;
  return Step::Field;
}

} // namespace argosy::data
