#pragma once

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/text.h"

// Seeds of tests that draw what happens in each run from a seed.
namespace argosy::testing {

inline std::vector<std::uint64_t> seeds_from(
    std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> seeds(count);
  std::iota(seeds.begin(), seeds.end(), first);
  return seeds;
}

// Those that ARGOSY_SOAK_SEED names, to repeat runs: "7", "7,9", "1000-1049".
inline std::optional<std::vector<std::uint64_t>> seeds_to_repeat() {
  const char* const text = std::getenv("ARGOSY_SOAK_SEED");
  if (text == nullptr) {
    return std::nullopt;
  }
  std::vector<std::uint64_t> seeds;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = std::stoull(part);
    const auto last =
        dash == std::string::npos ? first : std::stoull(part.substr(dash + 1));
    const auto more = seeds_from(first, last - first + 1);
    seeds.insert(seeds.end(), more.begin(), more.end());
  }
  return seeds;
}

} // namespace argosy::testing
