#pragma once

#include <cstdint>
#include <vector>

namespace argosy::data {

// 0 .. size-1 in the order of (seed, epoch): Fisher-Yates on std::mt19937_64,
// both fixed to the bit, so that all ranks, compilers and platforms agree.
// (std::shuffle and std::uniform_int_distribution differ between libraries.)
std::vector<std::int64_t> shuffled_indices(
    std::int64_t size, std::uint64_t seed, std::int64_t epoch);

} // namespace argosy::data
