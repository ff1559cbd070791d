#include "argosy/comm/message/exchange.h"

#include <algorithm>
#include <cstring>

#include "argosy/comm/byte_offset.h"
#include "argosy/comm/slice.h"

namespace argosy::comm::message {

namespace {

// Pieces long enough to be worth a message, short enough to be passed on while
// the next one comes.
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
// From here on a chain's pieces hide its length.
constexpr std::size_t kChainBytes = std::size_t{1} << 20;

} // namespace

Part piece_of(const Part& part, std::size_t bytes, std::size_t index) {
  const std::size_t begin = std::min(part.bytes, bytes * index);
  return {part.data + begin, std::min(bytes, part.bytes - begin)};
}

Parts parts_of(const Blocks& blocks, std::size_t element, int num_ranks) {
  Parts parts(static_cast<std::size_t>(num_ranks));
  for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
    parts[rank] = {
        writable_at(blocks[rank].data, 0), blocks[rank].count * element};
  }
  return parts;
}

Parts slices_of(
    const void* data, std::size_t count, std::size_t element, int num_ranks) {
  // Slices begin at cache lines, for the additions.
  const std::size_t grain = std::max<std::size_t>(1, 64 / element);
  Parts parts;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Slice slice = slice_of(count, num_ranks, rank, grain);
    parts.push_back(
        {writable_at(data, slice.begin * element), slice.count * element});
  }
  return parts;
}

void exchange(Flight& flight, const Parcels& parcels) {
  const auto own = static_cast<std::size_t>(flight.rank());
  const auto others = flight.others();
  for (auto peer = others.rbegin(); peer != others.rend(); ++peer) {
    const Part& part = parcels.receive[static_cast<std::size_t>(*peer)];
    if (part.bytes > 0) {
      flight.receive(*peer, Tag::Data, part.data, part.bytes);
    }
  }
  for (const int peer : others) {
    const Part& part = parcels.send[static_cast<std::size_t>(peer)];
    if (part.bytes > 0) {
      flight.send(peer, Tag::Data, part.data, part.bytes);
    }
  }
  const Part& mine = parcels.receive[own];
  if (mine.bytes > 0 && mine.data != parcels.send[own].data) {
    std::memcpy(mine.data, parcels.send[own].data, mine.bytes);
  }
  flight.wait_all();
}

Stop tree_stop(int rank, int size, int root) {
  const int place = (rank - root + size) % size;
  Stop stop;
  int step = 1;
  for (; step < size; step *= 2) {
    if ((place & step) != 0) {
      stop.from = (place - step + root) % size;
      break;
    }
  }
  for (step /= 2; step > 0; step /= 2) {
    if (place + step < size) {
      stop.to.push_back((place + step + root) % size);
    }
  }
  return stop;
}

Stop chain_stop(int rank, int size, int root) {
  const int place = (rank - root + size) % size;
  Stop stop;
  if (place > 0) {
    stop.from = (rank - 1 + size) % size;
  }
  if (place + 1 < size) {
    stop.to.push_back((rank + 1) % size);
  }
  return stop;
}

void broadcast(Flight& flight, const Part& data, int root) {
  const Stop stop = data.bytes < kChainBytes
      ? tree_stop(flight.rank(), flight.size(), root)
      : chain_stop(flight.rank(), flight.size(), root);
  const std::size_t num_pieces = (data.bytes + kPieceBytes - 1) / kPieceBytes;
  std::vector<std::size_t> arrivals;
  for (std::size_t i = 0; stop.from >= 0 && i < num_pieces; ++i) {
    const Part piece = piece_of(data, kPieceBytes, i);
    arrivals.push_back(
        flight.receive(stop.from, Tag::Data, piece.data, piece.bytes));
  }
  for (std::size_t i = 0; i < num_pieces; ++i) {
    if (stop.from >= 0) {
      flight.wait(arrivals[i]);
    }
    const Part piece = piece_of(data, kPieceBytes, i);
    for (const int peer : stop.to) {
      flight.send(peer, Tag::Data, piece.data, piece.bytes);
    }
  }
  flight.wait_all();
}

} // namespace argosy::comm::message
