#include "argosy/data/shuffle.h"

#include <cstddef>
#include <numeric>
#include <random>
#include <utility>

namespace argosy::data {

namespace {

// The finalizer of splitmix64: similar inputs give unrelated outputs.
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Uniform in [0, bound). Rejects draws below 2^64 mod bound, which would favour
// small results.
std::uint64_t draw_below(std::mt19937_64& generator, std::uint64_t bound) {
  const std::uint64_t refused = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t drawn = generator();
    if (drawn >= refused) {
      return drawn % bound;
    }
  }
}

} // namespace

// Fisher-Yates. Not std::shuffle, whose result depends on the standard library:
// every rank computes the order by itself, and a resumed run must find the
// order that the interrupted one had. std::mt19937_64 is specified exactly.
std::vector<std::int64_t> shuffled_indices(
    std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 generator(
      scramble(scramble(seed) + static_cast<std::uint64_t>(epoch)));
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[draw_below(generator, left)]);
  }
  return order;
}

} // namespace argosy::data
