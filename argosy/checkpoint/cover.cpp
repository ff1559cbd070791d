#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "argosy/checkpoint/boxes.h"

// Covers and overlaps. A region is halved along edges of boxes until few boxes
// are in it: n boxes of a usual layout (grids, ranges of rows) take n log n.
namespace argosy::checkpoint {

namespace {

using Indices = std::vector<std::uint32_t>;

// Regions with no more boxes are not halved.
constexpr std::size_t kFewBoxes = 8;

struct Plane {
  std::size_t dim = 0;
  std::int64_t at = 0;
};

class CoverSearch {
 public:
  CoverSearch(const std::vector<Box>& boxes, bool only_overlaps)
      : boxes_(boxes), only_overlaps_(only_overlaps) {}

  Cover run(const Shape& shape) {
    Indices inside;
    for (std::uint32_t i = 0; i < boxes_.size(); ++i) {
      if (boxes_[i].numel() > 0) {
        inside.push_back(i);
      }
    }
    if (dtensor::numel(shape) > 0) {
      visit(dtensor::whole(shape), inside);
    }
    return std::move(cover_);
  }

 private:
  bool done() const { return only_overlaps_ && cover_.overlaps; }

  // `inside`: the boxes that intersect the region.
  void visit(const Box& region, const Indices& inside) {
    if (done()) {
      return;
    }
    const auto plane = inside.size() > kFewBoxes ? middle_edge(region, inside)
                                                 : std::optional<Plane>();
    if (!plane) {
      visit_few(region, inside);
      return;
    }
    Box below = region;
    Box above = region;
    below.size[plane->dim] = plane->at - region.offset[plane->dim];
    above.offset[plane->dim] = plane->at;
    above.size[plane->dim] -= below.size[plane->dim];
    visit(below, those_in(below, inside));
    visit(above, those_in(above, inside));
  }

  Indices those_in(const Box& region, const Indices& inside) const {
    Indices found;
    for (const std::uint32_t i : inside) {
      if (intersects(boxes_[i], region)) {
        found.push_back(i);
      }
    }
    return found;
  }

  // The median of the edges inside of the region along the dim that has most
  // of them; none if all boxes cover the region.
  std::optional<Plane> middle_edge(
      const Box& region, const Indices& inside) const {
    std::vector<std::int64_t> most;
    std::size_t dim = 0;
    for (std::size_t d = 0; d < region.size.size(); ++d) {
      std::vector<std::int64_t> edges;
      for (const std::uint32_t i : inside) {
        const std::int64_t begin = boxes_[i].offset[d];
        for (const std::int64_t edge : {begin, begin + boxes_[i].size[d]}) {
          if (edge > region.offset[d] &&
              edge < region.offset[d] + region.size[d]) {
            edges.push_back(edge);
          }
        }
      }
      if (edges.size() > most.size()) {
        most = std::move(edges);
        dim = d;
      }
    }
    if (most.empty()) {
      return std::nullopt;
    }
    const auto middle =
        most.begin() + static_cast<std::ptrdiff_t>(most.size() / 2);
    std::ranges::nth_element(most, middle);
    return Plane{dim, *middle};
  }

  void visit_few(const Box& region, const Indices& inside) {
    note_overlaps(inside);
    if (only_overlaps_) {
      return;
    }
    std::vector<Box> left = {region};
    for (const std::uint32_t i : inside) {
      std::vector<Box> next;
      for (const Box& part : left) {
        std::ranges::move(subtract(part, boxes_[i]), std::back_inserter(next));
      }
      left = std::move(next);
    }
    std::ranges::move(left, std::back_inserter(cover_.missing));
  }

  void note_overlaps(const Indices& inside) {
    for (std::size_t a = 0; a < inside.size() && !cover_.overlaps; ++a) {
      for (std::size_t b = a + 1; b < inside.size(); ++b) {
        cover_.overlaps |= intersects(boxes_[inside[a]], boxes_[inside[b]]);
      }
    }
  }

  const std::vector<Box>& boxes_;
  const bool only_overlaps_;
  Cover cover_;
};

} // namespace

Cover cover_of(const Shape& shape, const std::vector<Box>& boxes) {
  return CoverSearch(boxes, false).run(shape);
}

bool overlapping(const Shape& shape, const std::vector<Box>& boxes) {
  return boxes.size() > 1 && CoverSearch(boxes, true).run(shape).overlaps;
}

} // namespace argosy::checkpoint
