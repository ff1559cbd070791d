#include "argosy/optim/parallel_for.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#ifndef _OPENMP
#error "at::parallel_for is a plain loop unless compiled with -fopenmp"
#endif

namespace argosy::optim {

namespace {

// With fewer elements, waking threads takes as long as the work.
constexpr std::int64_t kLeastPerThread = 262144;

} // namespace

std::vector<Chunk> chunks_of(
    const std::vector<std::size_t>& counts, std::size_t chunk_size) {
  std::vector<Chunk> chunks;
  chunks.reserve(counts.size());
  for (std::size_t span = 0; span < counts.size(); ++span) {
    for (std::size_t at = 0; at < counts[span]; at += chunk_size) {
      chunks.push_back({span, at, std::min(chunk_size, counts[span] - at)});
    }
  }
  return chunks;
}

void parallel_for(
    const std::vector<Chunk>& chunks,
    const std::function<void(std::size_t)>& f) {
  std::vector<std::int64_t> ends;
  ends.reserve(chunks.size());
  std::int64_t total = 0;
  for (const Chunk& chunk : chunks) {
    total += static_cast<std::int64_t>(chunk.count);
    ends.push_back(total);
  }
  // Each thread gets a range of elements and does the chunks that end in it.
  at::parallel_for(
      0, total, kLeastPerThread, [&](std::int64_t begin, std::int64_t end) {
        // A chunk that ends at `begin` belongs to the previous range, one that
        // ends at `end` to this one: each runs once.
        const auto first = std::ranges::upper_bound(ends, begin);
        for (auto at = first; at != ends.end() && *at <= end; ++at) {
          f(static_cast<std::size_t>(at - ends.begin()));
        }
      });
}

} // namespace argosy::optim
