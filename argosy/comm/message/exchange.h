#pragma once

#include <cstddef>
#include <vector>

#include "argosy/comm/blocks.h"
#include "argosy/comm/message/flight.h"

namespace argosy::comm::message {

// Bytes that lie side by side.
struct Part {
  std::byte* data = nullptr; // not written where it is sent
  std::size_t bytes = 0;

  bool operator==(const Part&) const = default;
};

using Parts = std::vector<Part>; // one for each rank

// Part `index` of those that come after another, at most `bytes` long. Empty
// past the end.
Part piece_of(const Part& part, std::size_t bytes, std::size_t index);

// The blocks as bytes. No blocks: empty parts.
Parts parts_of(const Blocks& blocks, std::size_t element, int num_ranks);

// `bytes` at `data` cut into one slice for each rank, along whole elements.
Parts slices_of(
    const void* data, std::size_t count, std::size_t element, int num_ranks);

// What this rank sends to each rank and receives from each, itself included.
// Empty parts are no messages; so a part that one side sees empty must be empty
// on the other.
struct Parcels {
  Parts send;
  Parts receive;
};

// Carries it out, all at once.
void exchange(Flight& flight, const Parcels& parcels);

// Whom a rank has data from in a broadcast, and whom it passes it on to.
struct Stop {
  int from = -1; // -1: it is the root
  std::vector<int> to;

  bool operator==(const Stop&) const = default;
};

// A binomial tree: log2(size) times the latency, and the root sends as often.
Stop tree_stop(int rank, int size, int root);

// A chain: every rank sends once, which long data in pieces fills with work.
Stop chain_stop(int rank, int size, int root);

void broadcast(Flight& flight, const Part& data, int root);

} // namespace argosy::comm::message
