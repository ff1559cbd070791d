#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "argosy/checkpoint/tensor_info.h"

// Arithmetic on blocks of tensors, in row-major order. Pure.
namespace argosy::checkpoint {

// The boxes that hold elements [from, from + count) of a tensor of this shape
// in row-major order: at most 2 * dims - 1 of them, in that order, each a
// contiguous range of the elements.
std::vector<Box> boxes_of_range(
    const Shape& shape, std::int64_t from, std::int64_t count);

// Whether a box is one of a tensor of this shape: as many dims, sizes not
// negative, all of it inside.
bool is_inside(const Box& box, const Shape& shape);

// Whether they share an element. Allocates nothing.
bool intersects(const Box& a, const Box& b);

// The number of elements that they share. Allocates nothing.
std::int64_t count_common(const Box& a, const Box& b);

// `box` without what it shares with `other`: disjoint boxes.
std::vector<Box> subtract(const Box& box, const Box& other);

// The parts of `boxes` as a cover of a tensor of `shape`.
struct Cover {
  bool overlaps = false;
  std::vector<Box> missing; // disjoint
};
Cover cover_of(const Shape& shape, const std::vector<Box>& boxes);

// Whether two of `boxes`, which lie in a tensor of `shape`, share an element.
bool overlapping(const Shape& shape, const std::vector<Box>& boxes);

// The elements that a range of one box shares with another box, as runs that
// are contiguous in both. Offsets are in elements, row-major in each box.
struct Run {
  std::int64_t from = 0; // in the source box
  std::int64_t to = 0;   // in the target box
  std::int64_t count = 0;
};

// Calls `f` for the runs that elements [begin, end) of `source` share with
// `target`, in the order of the source. Adjacent runs are one.
void for_each_run(
    const Box& source,
    std::int64_t begin,
    std::int64_t end,
    const Box& target,
    const std::function<void(const Run&)>& f);

// The number of elements in these runs, without visiting each.
std::int64_t count_common(
    const Box& source, std::int64_t begin, std::int64_t end, const Box& target);

} // namespace argosy::checkpoint
