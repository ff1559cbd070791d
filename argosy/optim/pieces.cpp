#include "argosy/optim/pieces.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#ifndef _OPENMP
#error "at::parallel_for is a plain loop unless compiled with -fopenmp"
#endif

namespace argosy::optim {

namespace {

// With less, waking threads and waiting for them takes as long as the work.
constexpr std::int64_t kLeastPerThread = 262144;

} // namespace

std::vector<Piece> cut(
    const std::vector<std::size_t>& counts, std::size_t piece_size) {
  std::vector<Piece> pieces;
  pieces.reserve(counts.size());
  for (std::size_t span = 0; span < counts.size(); ++span) {
    for (std::size_t at = 0; at < counts[span]; at += piece_size) {
      pieces.push_back({span, at, std::min(piece_size, counts[span] - at)});
    }
  }
  return pieces;
}

void for_each_piece(
    const std::vector<Piece>& pieces,
    const std::function<void(std::size_t)>& f) {
  std::vector<std::int64_t> ends;
  ends.reserve(pieces.size());
  std::int64_t total = 0;
  for (const Piece& piece : pieces) {
    total += static_cast<std::int64_t>(piece.count);
    ends.push_back(total);
  }
  // A thread gets a range of elements, and does the pieces that end in it.
  at::parallel_for(
      0, total, kLeastPerThread, [&](std::int64_t begin, std::int64_t end) {
        const auto first = std::upper_bound(ends.begin(), ends.end(), begin);
        for (auto at = first; at != ends.end() && *at <= end; ++at) {
          f(static_cast<std::size_t>(at - ends.begin()));
        }
      });
}

} // namespace argosy::optim
