#pragma once

#include <cstdint>

namespace argosy::data {

// The finalizer of splitmix64: similar inputs give unrelated outputs.
constexpr std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Random numbers at a nanosecond each, the same everywhere. Not installed.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(scramble(seed)) {}

  std::uint64_t next() {
    const std::uint64_t drawn = scramble(state_);
    state_ += 0x9e3779b97f4a7c15U;
    return drawn;
  }

  // Uniform in [0, bound), without a division in nearly all cases: the upper
  // half of a product, drawn again where the lower half would favour a result.
  std::uint64_t below(std::uint64_t bound) {
    for (;;) {
      const auto product = static_cast<unsigned __int128>(next()) * bound;
      const auto low = static_cast<std::uint64_t>(product);
      if (low >= bound || low >= (0 - bound) % bound) {
        return static_cast<std::uint64_t>(product >> 64);
      }
    }
  }

 private:
  std::uint64_t state_;
};

} // namespace argosy::data
