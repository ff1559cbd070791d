#include "argosy/observe/event_record.h"

#include <bit>
#include <concepts>

#include "argosy/observe/crc32c.h"

namespace argosy::observe {

namespace {

// Field numbers of tensorflow.Event, .Summary and .Summary.Value.
constexpr int kEventWallTime = 1;
constexpr int kEventStep = 2;
constexpr int kEventFileVersion = 3;
constexpr int kEventSummary = 5;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueSimpleValue = 2;

enum class WireType { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

template <std::unsigned_integral T>
void put_fixed(std::string& out, T value) {
  for (std::size_t byte = 0; byte < sizeof(T); ++byte) {
    out += static_cast<char>((value >> (8 * byte)) & 0xff);
  }
}

// Protobuf's encoding: seven bits per byte, the lowest first; the top bit says
// that more follow.
void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void put_key(std::string& out, int field, WireType type) {
  put_varint(
      out,
      static_cast<std::uint64_t>(field) << 3 | static_cast<unsigned>(type));
}

void put_double(std::string& out, int field, double value) {
  put_key(out, field, WireType::Fixed64);
  put_fixed(out, std::bit_cast<std::uint64_t>(value));
}

void put_float(std::string& out, int field, float value) {
  put_key(out, field, WireType::Fixed32);
  put_fixed(out, std::bit_cast<std::uint32_t>(value));
}

void put_int(std::string& out, int field, std::int64_t value) {
  put_key(out, field, WireType::Varint);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, WireType::Bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

} // namespace

// A record of TFRecord: length, checksum of the length, data, checksum of the
// data, little-endian. The length has its own checksum because a reader must
// trust it before it can find the data.
std::string framed(std::string_view data) {
  std::string record;
  put_fixed(record, std::uint64_t{data.size()});
  put_fixed(record, masked_crc32c(record));
  record += data;
  put_fixed(record, masked_crc32c(data));
  return record;
}

std::string version_event(double time) {
  std::string event;
  put_double(event, kEventWallTime, time);
  put_bytes(event, kEventFileVersion, "brain.Event:2");
  return event;
}

std::string scalar_event(
    double time, std::int64_t step, std::string_view tag, float value) {
  std::string scalar;
  put_bytes(scalar, kValueTag, tag);
  put_float(scalar, kValueSimpleValue, value);
  std::string summary;
  put_bytes(summary, kSummaryValue, scalar);
  std::string event;
  put_double(event, kEventWallTime, time);
  put_int(event, kEventStep, step);
  put_bytes(event, kEventSummary, summary);
  return event;
}

} // namespace argosy::observe
