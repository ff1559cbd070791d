#pragma once

#include <cstdint>
#include <vector>

// Torch-free.
namespace argosy::sequence_parallel {

using Positions = std::vector<std::int64_t>;

// Which weights of attention are dropped: a function of the seed and of numbers
// that do not depend on how ranks share the sequence and the heads.
struct WeightDropout {
  double probability = 0; // in [0, 1)
  std::uint64_t seed = 0;
  std::int64_t first_head = 0; // the number of local head 0

  // The state of a row of weights, for keeps().
  std::uint64_t row(
      std::int64_t batch, std::int64_t head, std::int64_t query) const;

  bool keeps(std::uint64_t row, std::int64_t key) const {
    // The upper half: its bits are mixed best.
    const auto number = static_cast<double>(mix(row, key) >> 32);
    return number >= probability * 4294967296.0;
  }

 private:
  // SplitMix64: the state advances by an odd constant, and its bits are mixed.
  static std::uint64_t mix(std::uint64_t state, std::int64_t steps) {
    std::uint64_t bits =
        state + (static_cast<std::uint64_t>(steps) + 1) * 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  }
};

} // namespace argosy::sequence_parallel
