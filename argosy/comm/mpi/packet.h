#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace argosy::comm::mpi {

enum class Kind : std::uint32_t { Message, End };

// The beginning of every message. MPI's tags have 15 to 31 bits, ours have 64
// and a channel: so packets all have one tag of MPI's, and say here whose they
// are. A short message follows in its packet; a long one by itself, under the
// tag of MPI's that the packet names.
struct Header {
  std::uint64_t channel = 0;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::int32_t payload_tag = 0; // 0: in the packet
  Kind kind = Kind::Message;
};

// What MPIs send at once, without asking the receiver.
constexpr std::size_t kPacketBytes = 4000;
constexpr std::size_t kShortBytes = kPacketBytes - sizeof(Header);

using Packet = std::vector<std::byte>;

inline Packet make_packet(
    const Header& header, const void* data, std::size_t bytes) {
  Packet packet(sizeof(Header) + bytes);
  std::memcpy(packet.data(), &header, sizeof(Header));
  if (bytes > 0) {
    std::memcpy(packet.data() + sizeof(Header), data, bytes);
  }
  return packet;
}

inline Header header_of(const std::byte* packet) {
  Header header;
  std::memcpy(&header, packet, sizeof(Header));
  return header;
}

} // namespace argosy::comm::mpi
