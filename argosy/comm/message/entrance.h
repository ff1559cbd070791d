#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "argosy/comm/message/notes.h"
#include "argosy/comm/message/op_record.h"

namespace argosy::comm::message {

// What a rank brings to an operation: what it calls, numbers that the others
// must know, and its data when that is short enough to ride along.
struct Ticket {
  OpRecord record;
  RankCounts counts; // of all_to_all; else empty
  std::vector<std::byte> data;
};

// How many bytes of data may ride along.
inline constexpr std::size_t kRideBytes = 4096;

constexpr bool rides(std::size_t bytes) {
  return bytes <= kRideBytes;
}

// What others see of a ticket, valid until the next operation.
struct Seen {
  OpRecord record;
  RankCounts counts;
  Note data;
};

std::size_t max_note_bytes(int num_ranks);

std::vector<std::byte> pack(const Ticket& ticket);
Seen unpack(Note note);

// Throws InvalidArgument, on all ranks the same, unless all do the same.
void check_agreement(
    const std::vector<Seen>& tickets, const std::string& group);

} // namespace argosy::comm::message
