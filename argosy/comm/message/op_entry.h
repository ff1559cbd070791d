#pragma once

#include <cstddef>
#include <vector>

#include "argosy/comm/message/small_all_gather.h"
#include "argosy/comm/operation/op_record.h"

namespace argosy::comm::message {

// What a rank sends to all others on entering a collective: which one it calls,
// numbers that they must know, and its data if that is short.
struct OpEntry {
  OpRecord record;
  RankCounts counts; // of all_to_all; else empty
  std::vector<std::byte> data;
};

// Data up to this size travels inside the entry.
inline constexpr std::size_t kInlineBytes = 4096;

constexpr bool fits_inline(std::size_t bytes) {
  return bytes <= kInlineBytes;
}

// A received entry; `data` is valid until the next collective.
struct OpEntryView {
  OpRecord record;
  RankCounts counts;
  ByteSpan data;
};

std::size_t max_entry_bytes(int num_ranks);

std::vector<std::byte> pack(const OpEntry& entry);
// Throws InvalidArgument when a peer sent something else.
OpEntryView unpack(ByteSpan packed);

// The entry's data from `offset` on. Throws InvalidArgument unless it has
// `bytes` there.
const std::byte* data_at(
    const OpEntryView& entry, std::size_t offset, std::size_t bytes);

// Throws InvalidArgument, on all ranks the same, unless all entered the same
// collective.
void check_agreement(
    const std::vector<OpEntryView>& entries,
    const std::string& group,
    const std::vector<int>& global_ranks);

} // namespace argosy::comm::message
