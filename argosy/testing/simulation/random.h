#pragma once

#include <chrono>
#include <cstdint>

namespace argosy::testing {

// Random numbers of a seed, the same with every compiler and library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    // SplitMix64: a counter with a good mixing function.
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // In [0, end).
  int below(int end) {
    return static_cast<int>(next() % static_cast<std::uint64_t>(end));
  }

  // In [first, last].
  int between(int first, int last) { return first + below(last - first + 1); }

  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }

  std::chrono::microseconds between(
      std::chrono::microseconds first, std::chrono::microseconds last) {
    const auto span = static_cast<std::uint64_t>((last - first).count()) + 1;
    return first + std::chrono::microseconds(next() % span);
  }

 private:
  std::uint64_t state_;
};

} // namespace argosy::testing
