#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace argosy::ps {

// Random numbers that depend on (seed, table, key) and what they are for, and
// on nothing else: any number of servers, in any order, gives the same rows.
class KeyRandom {
 public:
  KeyRandom(std::uint64_t seed, int table_id)
      : base_(mix(seed + kStep * static_cast<std::uint64_t>(table_id + 1))) {}

  // Streams of a key.
  enum class For : std::uint64_t { Embed, Embedx, Admission };

  // In [-range, range), one for each weight.
  void fill(
      std::uint64_t key, For use, float range, std::span<float> weights) const {
    const std::uint64_t start = stream(key, use);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      // + 0: a negative zero becomes a positive one.
      weights[i] = (2 * unit(mix(start + kStep * (i + 1))) - 1) * range + 0.0f;
    }
  }

  // In [0, 1), for a record that is pushed: another one for each record.
  float chance(std::uint64_t key, std::span<const float> record) const;

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;

  static std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
  }
  static float unit(std::uint64_t bits) {
    return static_cast<float>(bits >> 40) * 0x1p-24f;
  }
  std::uint64_t stream(std::uint64_t key, For use) const {
    return mix(base_ ^ mix(key + kStep * static_cast<std::uint64_t>(use)));
  }

  std::uint64_t base_;
};

} // namespace argosy::ps
