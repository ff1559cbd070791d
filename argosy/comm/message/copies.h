#pragma once

#include <cstddef>
#include <vector>

#include "argosy/comm/backend/blocks.h"
#include "argosy/comm/message/transfer_set.h"

// Collectives that move data and reduce nothing.
namespace argosy::comm::message {

// Contiguous bytes.
struct ByteRange {
  std::byte* data = nullptr; // not written where it is sent
  std::size_t bytes = 0;

  bool operator==(const ByteRange&) const = default;
};

using ByteRanges = std::vector<ByteRange>; // one for each rank

// Chunk `index` of a range cut into chunks of `bytes`. Empty past the end.
ByteRange chunk_of(
    const ByteRange& range, std::size_t bytes, std::size_t index);

// The blocks as bytes. Without blocks, empty ranges.
ByteRanges byte_ranges_of(
    const Blocks& blocks, std::size_t element, int num_ranks);

// `count` elements at `data`, cut into one slice for each rank.
ByteRanges sliced_ranges(
    const void* data, std::size_t count, std::size_t element, int num_ranks);

// What this rank sends to each rank and receives from each, itself included.
// Empty ranges are not sent, so a range that is empty on one side must be empty
// on the other.
struct AllToAllRanges {
  ByteRanges send;
  ByteRanges receive;
};

// Posts all sends and receives at once and waits for them.
void all_to_all(TransferSet& transfers, const AllToAllRanges& ranges);

// From whom a rank receives in a broadcast, and to whom it forwards.
struct Neighbours {
  int from = -1; // -1: it is the root
  std::vector<int> to;

  bool operator==(const Neighbours&) const = default;
};

// A binomial tree: ceil(log2(size)) times the latency, and as many sends of the
// root.
Neighbours tree_neighbours(int rank, int size, int root);
// A chain: every rank sends once. Chunks of long data fill it.
Neighbours chain_neighbours(int rank, int size, int root);

void broadcast(TransferSet& transfers, const ByteRange& data, int root);

} // namespace argosy::comm::message
