#pragma once

#include <cstdint>
#include <vector>

namespace argosy::data {

// Returns a permutation of 0 .. size-1 that depends on (seed, epoch) only:
// Fisher-Yates with std::mt19937_64, so that all ranks, compilers and platforms
// agree bit for bit. (std::shuffle and std::uniform_int_distribution differ
// between standard libraries.)
std::vector<std::int64_t> shuffled_indices(
    std::int64_t size, std::uint64_t seed, std::int64_t epoch);

} // namespace argosy::data
