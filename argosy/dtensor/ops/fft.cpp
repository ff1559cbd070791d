// Fourier transforms: dims that are not transformed may be cut, and sums go
// through.

#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"

namespace argosy::dtensor {

namespace {

std::size_t at(std::int64_t dim, const Shape& shape) {
  const auto ndim = static_cast<std::int64_t>(shape.size());
  return static_cast<std::size_t>(dim < 0 ? dim + ndim : dim);
}

std::vector<Strategy> transform(const OpCall& call) {
  std::string letters = first_letters(call.shape(0).size());
  for (const std::int64_t dim : call.integers("dim")) {
    letters[at(dim, call.shape(0))] = '-';
  }
  auto strategies = by_letters(call, {letters}, {letters});
  if (call.current(0) == Partial()) {
    strategies.push_back(call.strategy(Partial(), Partial()));
  }
  return strategies;
}

std::vector<Shape> same_shapes(const OpCall& call) {
  return {call.shape(0)};
}

std::vector<Shape> half(const OpCall& call) {
  Shape shape = call.shape(0);
  if (call.flag("onesided", true)) {
    std::int64_t& last = shape[at(call.integers("dim").back(), shape)];
    last = last / 2 + 1;
  }
  return {shape};
}

std::vector<Shape> whole(const OpCall& call) {
  Shape shape = call.shape(0);
  shape[at(call.integers("dim").back(), shape)] =
      call.integer("last_dim_size", 0);
  return {shape};
}

} // namespace

void add_fft_rules(RuleTable& table) {
  table.add("_fft_c2c", {.strategies = transform, .shapes = same_shapes});
  table.add("_fft_r2c", {.strategies = transform, .shapes = half});
  table.add("_fft_c2r", {.strategies = transform, .shapes = whole});
}

} // namespace argosy::dtensor
