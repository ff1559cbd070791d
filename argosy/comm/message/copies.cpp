#include "argosy/comm/message/copies.h"

#include <algorithm>
#include <cstring>

#include "argosy/comm/backend/slices.h"

namespace argosy::comm::message {

namespace {

// Chunks long enough to be worth a message, short enough to be passed on while
// the next one comes.
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
// From here on a chain's chunks hide its length.
constexpr std::size_t kChainBytes = std::size_t{1} << 20;

} // namespace

ByteRange chunk_of(
    const ByteRange& range, std::size_t bytes, std::size_t index) {
  const std::size_t begin = std::min(range.bytes, bytes * index);
  return {range.data + begin, std::min(bytes, range.bytes - begin)};
}

ByteRanges byte_ranges_of(
    const Blocks& blocks, std::size_t element, int num_ranks) {
  ByteRanges ranges(static_cast<std::size_t>(num_ranks));
  for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
    ranges[rank] = {
        writable_at(blocks[rank].data, 0), blocks[rank].count * element};
  }
  return ranges;
}

ByteRanges sliced_ranges(
    const void* data, std::size_t count, std::size_t element, int num_ranks) {
  // Slices begin at cache lines, for the additions.
  const std::size_t grain = std::max<std::size_t>(1, 64 / element);
  ByteRanges ranges;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Slice slice = slice_of(count, num_ranks, rank, grain);
    ranges.push_back(
        {writable_at(data, slice.begin * element), slice.count * element});
  }
  return ranges;
}

void all_to_all(TransferSet& transfers, const AllToAllRanges& ranges) {
  const auto own = static_cast<std::size_t>(transfers.rank());
  const auto others = transfers.others();
  for (auto peer = others.rbegin(); peer != others.rend(); ++peer) {
    const ByteRange& range = ranges.receive[static_cast<std::size_t>(*peer)];
    if (range.bytes > 0) {
      transfers.receive(*peer, Tag::Data, range.data, range.bytes);
    }
  }
  for (const int peer : others) {
    const ByteRange& range = ranges.send[static_cast<std::size_t>(peer)];
    if (range.bytes > 0) {
      transfers.send(peer, Tag::Data, range.data, range.bytes);
    }
  }
  const ByteRange& mine = ranges.receive[own];
  if (mine.bytes > 0 && mine.data != ranges.send[own].data) {
    std::memcpy(mine.data, ranges.send[own].data, mine.bytes);
  }
  transfers.wait_all();
}

// Positions are ranks counted from the root. The parent of a position is the
// position without its lowest set bit; its children set one lower bit, the
// farthest first, as that one has the largest subtree.
Neighbours tree_neighbours(int rank, int size, int root) {
  const int position = (rank - root + size) % size;
  Neighbours neighbours;
  int step = 1;
  for (; step < size; step *= 2) {
    if ((position & step) != 0) {
      neighbours.from = (position - step + root) % size;
      break;
    }
  }
  for (step /= 2; step > 0; step /= 2) {
    if (position + step < size) {
      neighbours.to.push_back((position + step + root) % size);
    }
  }
  return neighbours;
}

Neighbours chain_neighbours(int rank, int size, int root) {
  const int position = (rank - root + size) % size;
  Neighbours neighbours;
  if (position > 0) {
    neighbours.from = (rank - 1 + size) % size;
  }
  if (position + 1 < size) {
    neighbours.to.push_back((rank + 1) % size);
  }
  return neighbours;
}

void broadcast(TransferSet& transfers, const ByteRange& data, int root) {
  const Neighbours neighbours = data.bytes < kChainBytes
      ? tree_neighbours(transfers.rank(), transfers.size(), root)
      : chain_neighbours(transfers.rank(), transfers.size(), root);
  const std::size_t num_chunks = (data.bytes + kChunkBytes - 1) / kChunkBytes;
  std::vector<std::size_t> arrivals;
  for (std::size_t i = 0; neighbours.from >= 0 && i < num_chunks; ++i) {
    const ByteRange chunk = chunk_of(data, kChunkBytes, i);
    arrivals.push_back(
        transfers.receive(neighbours.from, Tag::Data, chunk.data, chunk.bytes));
  }
  for (std::size_t i = 0; i < num_chunks; ++i) {
    if (neighbours.from >= 0) {
      transfers.wait(arrivals[i]);
    }
    const ByteRange chunk = chunk_of(data, kChunkBytes, i);
    for (const int peer : neighbours.to) {
      transfers.send(peer, Tag::Data, chunk.data, chunk.bytes);
    }
  }
  transfers.wait_all();
}

} // namespace argosy::comm::message
