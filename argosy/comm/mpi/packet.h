#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace argosy::comm::mpi {

enum class Kind : std::uint32_t { Message, End };

// The header of every packet. MPI's tags have 15 to 31 bits, ours have 64 and a
// channel, so all packets have one MPI tag, and the header says where they
// belong. A packet carries a short message itself; a long one follows under the
// MPI tag that the header names.
struct Header {
  std::uint64_t channel = 0;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::int32_t payload_tag = 0; // 0: in the packet
  Kind kind = Kind::Message;
};

// MPI sends this much without asking the receiver (eagerly).
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
