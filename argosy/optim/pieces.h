#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace argosy::optim {

// A part of one of several spans of elements.
struct Piece {
  std::size_t span = 0; // index
  std::size_t begin = 0;
  std::size_t count = 0;

  bool operator==(const Piece&) const = default;
};

// Small enough that what a kernel reads of it stays in the second-level cache,
// and that threads share the work evenly.
inline constexpr std::size_t kPieceSize = 16384;

// Cuts spans of `counts` elements, in order. Does not depend on the number of
// threads: sums over pieces, added up in order, are the same for any.
std::vector<Piece> cut(
    const std::vector<std::size_t>& counts,
    std::size_t piece_size = kPieceSize);

// Calls f(piece index) for all pieces, on torch's threads when there is work
// for several. `f` does not throw.
void for_each_piece(
    const std::vector<Piece>& pieces,
    const std::function<void(std::size_t)>& f);

} // namespace argosy::optim
