#include "argosy/rpc/frame.h"

#include <bit>
#include <cstring>

#include "argosy/common/error.h"

namespace argosy::rpc {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kMagic = 0x43505241; // "ARPC"

// As it travels.
struct WireHeader {
  std::uint32_t magic;
  std::uint8_t kind;
  std::uint8_t flags;
  std::uint16_t method_bytes;
  std::uint32_t num_parts;
  std::uint32_t zero;
  std::uint64_t sequence;
  std::uint64_t confirmed;
  std::int64_t time_left_us;
  std::uint64_t head_bytes;
  std::uint64_t body_bytes;
};
static_assert(sizeof(WireHeader) == kHeaderBytes);

WireHeader to_wire(const FrameHeader& header) {
  return {
      .magic = kMagic,
      .kind = static_cast<std::uint8_t>(header.kind),
      .flags = header.flags,
      .method_bytes = header.method_bytes,
      .num_parts = header.num_parts,
      .zero = 0,
      .sequence = header.sequence,
      .confirmed = header.confirmed,
      .time_left_us = header.time_left_us,
      .head_bytes = header.head_bytes,
      .body_bytes = header.body_bytes};
}

void check_lengths(const WireHeader& wire, std::size_t longest_message) {
  ARGOSY_CHECK(
      wire.method_bytes <= kLongestMethod,
      "[rpc.frame] a method's name of {} bytes, expected at most {}",
      wire.method_bytes,
      kLongestMethod);
  ARGOSY_CHECK(
      wire.num_parts <= kMostParts,
      "[rpc.frame] {} parts, expected at most {}",
      wire.num_parts,
      kMostParts);
  // In this order, the sum cannot overflow.
  ARGOSY_CHECK(
      wire.head_bytes <= longest_message &&
          wire.body_bytes <= longest_message - wire.head_bytes,
      "[rpc.frame] a message of {} + {} bytes, expected at most {}",
      wire.head_bytes,
      wire.body_bytes,
      longest_message);
}

} // namespace

std::string encode_front(
    FrameHeader& header, std::string_view method, const Message& message) {
  std::string front;
  append_front(header, method, message, front);
  return front;
}

void append_front(
    FrameHeader& header,
    std::string_view method,
    const Message& message,
    std::string& out) {
  ARGOSY_CHECK(
      method.size() <= kLongestMethod,
      "[rpc.frame] a method's name of {} bytes, expected at most {}",
      method.size(),
      kLongestMethod);
  ARGOSY_CHECK(
      message.parts.size() <= kMostParts,
      "[rpc.frame] {} parts, expected at most {}",
      message.parts.size(),
      kMostParts);
  header.method_bytes = static_cast<std::uint16_t>(method.size());
  header.num_parts = static_cast<std::uint32_t>(message.parts.size());
  header.head_bytes = message.head.size();
  header.body_bytes = message.bytes() - message.head.size();
  const WireHeader wire = to_wire(header);
  out.append(reinterpret_cast<const char*>(&wire), sizeof(wire));
  out.append(method);
  for (const Bytes& part : message.parts) {
    const std::uint64_t size = part.size;
    out.append(reinterpret_cast<const char*>(&size), sizeof(size));
  }
  out.append(message.head);
}

FrameHeader decode_header(
    std::span<const std::byte, kHeaderBytes> bytes,
    std::size_t longest_message) {
  WireHeader wire;
  std::memcpy(&wire, bytes.data(), sizeof(wire));
  ARGOSY_CHECK(
      wire.magic == kMagic && wire.zero == 0,
      "[rpc.frame] {} at the beginning, expected {}: not a frame",
      wire.magic,
      kMagic);
  ARGOSY_CHECK(
      wire.kind >= static_cast<int>(FrameKind::Hello) &&
          wire.kind <= static_cast<int>(FrameKind::Refused),
      "[rpc.frame] kind {}, expected {} to {}",
      static_cast<int>(wire.kind),
      static_cast<int>(FrameKind::Hello),
      static_cast<int>(FrameKind::Refused));
  check_lengths(wire, longest_message);
  return {
      .kind = static_cast<FrameKind>(wire.kind),
      .flags = wire.flags,
      .method_bytes = wire.method_bytes,
      .num_parts = wire.num_parts,
      .sequence = wire.sequence,
      .confirmed = wire.confirmed,
      .time_left_us = wire.time_left_us,
      .head_bytes = wire.head_bytes,
      .body_bytes = wire.body_bytes};
}

FrameReader::FrameReader(
    std::size_t longest_message, std::shared_ptr<BufferPool> buffers)
    : longest_message_(longest_message), buffers_(std::move(buffers)) {}

std::span<std::byte> FrameReader::target() {
  switch (stage_) {
    case Stage::Header:
      return header_;
    case Stage::Names:
      return names_;
    case Stage::Head:
      return {
          reinterpret_cast<std::byte*>(frame_.message.head.data()),
          frame_.message.head.size()};
    case Stage::Parts:
      return {memory_[part_], frame_.message.parts[part_].size};
  }
  return {};
}

std::span<std::byte> FrameReader::room() {
  return target().subspan(filled_);
}

void FrameReader::advance(std::size_t count) {
  filled_ += count;
  while (wants_ == Wants::Bytes && filled_ == target().size()) {
    next_stage();
  }
}

void FrameReader::next_stage() {
  filled_ = 0;
  switch (stage_) {
    case Stage::Header:
      frame_.header = decode_header(header_, longest_message_);
      names_.resize(
          frame_.header.method_bytes +
          std::size_t{8} * frame_.header.num_parts);
      stage_ = Stage::Names;
      return;
    case Stage::Names:
      read_names();
      stage_ = Stage::Head;
      wants_ = Wants::Admission;
      return;
    case Stage::Head:
      part_ = 0;
      break;
    case Stage::Parts:
      ++part_;
      break;
  }
  stage_ = Stage::Parts;
  if (part_ == memory_.size()) {
    wants_ = Wants::Nothing;
  }
}

void FrameReader::read_names() {
  const FrameHeader& header = frame_.header;
  frame_.method.assign(
      reinterpret_cast<const char*>(names_.data()), header.method_bytes);
  frame_.message.parts.resize(header.num_parts);
  const std::byte* sizes = names_.data() + header.method_bytes;
  std::uint64_t left = header.body_bytes;
  for (Bytes& part : frame_.message.parts) {
    std::uint64_t size = 0;
    std::memcpy(&size, sizes, sizeof(size));
    sizes += sizeof(size);
    ARGOSY_CHECK(
        size <= left,
        "[rpc.frame] a part of {} bytes, expected at most {}, what is left of "
        "all parts",
        size,
        left);
    part.size = size;
    left -= size;
  }
  ARGOSY_CHECK(
      left == 0,
      "[rpc.frame] parts that are {} bytes shorter than announced",
      left);
}

void FrameReader::admit() {
  frame_.message.head.resize(frame_.header.head_bytes);
  allocate_parts();
  wants_ = Wants::Bytes;
  advance(0);
}

void FrameReader::allocate_parts() {
  memory_.clear();
  for (Bytes& part : frame_.message.parts) {
    const auto buffer = buffers_->take(part.size);
    memory_.push_back(buffer.get());
    part.data = buffer.get();
    part.keeper = buffer;
  }
}

Frame FrameReader::take() {
  stage_ = Stage::Header;
  wants_ = Wants::Bytes;
  filled_ = 0;
  return std::exchange(frame_, {});
}

} // namespace argosy::rpc
