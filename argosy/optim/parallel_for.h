#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace argosy::optim {

// A range of one of several spans of elements.
struct Chunk {
  std::size_t span = 0; // index
  std::size_t begin = 0;
  std::size_t count = 0;

  bool operator==(const Chunk&) const = default;
};

// Small enough that what a kernel reads of a chunk stays in the second-level
// cache, and that threads share the work evenly.
inline constexpr std::size_t kChunkSize = 16384;

// Cuts spans of `counts` elements into chunks, in order. The result does not
// depend on the number of threads, so that sums over chunks, added in order,
// are the same for any number.
std::vector<Chunk> chunks_of(
    const std::vector<std::size_t>& counts,
    std::size_t chunk_size = kChunkSize);

// Calls f(index of the chunk) for all chunks, on torch's threads if there is
// enough work for several. `f` must not throw.
void parallel_for(
    const std::vector<Chunk>& chunks,
    const std::function<void(std::size_t)>& f);

} // namespace argosy::optim
