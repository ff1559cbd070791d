#pragma once

#include <cstdint>

namespace argosy::dtensor {

// What a collective costs however little it carries, in bytes that it could
// have carried meanwhile.
inline constexpr std::int64_t kStartBytes = 16 * 1024;

} // namespace argosy::dtensor
