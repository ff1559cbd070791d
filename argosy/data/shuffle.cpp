#include "argosy/data/shuffle.h"

#include <cstddef>
#include <numeric>
#include <random>
#include <utility>

#include "argosy/data/splitmix.h"

namespace argosy::data {

namespace {

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
