#pragma once

#include <cstdint>

namespace argosy::bench {

inline constexpr std::int64_t kHeads = 4;
inline constexpr std::int64_t kDim = 64;

} // namespace argosy::bench
