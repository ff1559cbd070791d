#include "argosy/dtensor/layout/placement.h"

#include <algorithm>
#include <cstring>
#include <ostream>

#include "argosy/common/error.h"

namespace argosy {

Shard::Shard(int dim) : Placement(kShard | (dim & 0x3f)) {
  ARGOSY_CHECK(
      dim >= -32 && dim < 32,
      "[dtensor.shard] dim {}, expected one of -32 to 31",
      dim);
}

Placements::Placements(std::initializer_list<Placement> items)
    : Placements(std::vector<Placement>(items)) {}

Placements::Placements(const std::vector<Placement>& items)
    : Placements(items.size(), Placement()) {
  std::copy(items.begin(), items.end(), items_.begin());
}

Placements::Placements(std::size_t count, Placement each)
    : size_(static_cast<std::uint8_t>(count)) {
  ARGOSY_CHECK(
      count <= kMost,
      "[dtensor.placements] {} placements, expected at most {}",
      count,
      kMost);
  std::fill_n(items_.begin(), count, each);
}

bool is_replicated(const Placements& placements) {
  return placements.code() == 0;
}

bool has_partial(const Placements& placements) {
  return std::ranges::any_of(
      placements, [](Placement each) { return each.is_partial(); });
}

Placements normalized(const Placements& placements, int ndim, int num_axes) {
  ARGOSY_CHECK(
      static_cast<int>(placements.size()) == num_axes,
      "[dtensor.placements] {} for a mesh of {} axes; one for each is expected",
      placements,
      num_axes);
  Placements result = placements;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (!placements[axis].is_shard()) {
      continue;
    }
    const int given = placements[axis].dim();
    const int dim = given < 0 ? given + ndim : given;
    ARGOSY_CHECK(
        dim >= 0 && dim < ndim,
        "[dtensor.placements] {} for a tensor of {} dims",
        placements,
        ndim);
    result[axis] = Shard(dim);
  }
  return result;
}

Placements gradient_placements(Placements placements) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_partial()) {
      placements[axis] = Replicate();
    }
  }
  return placements;
}

std::string to_string(Placement placement) {
  if (placement.is_shard()) {
    return str("S(", placement.dim(), ")");
  }
  if (placement.is_partial()) {
    return str("P(", comm::to_string(placement.op()), ")");
  }
  return "R";
}

std::string to_string(const Placements& placements) {
  std::string text = "[";
  for (const Placement each : placements) {
    text += (text.size() > 1 ? ", " : "") + to_string(each);
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, Placement placement) {
  return out << to_string(placement);
}

std::ostream& operator<<(std::ostream& out, const Placements& placements) {
  return out << to_string(placements);
}

} // namespace argosy
