#include "argosy/checkpoint/boxes.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

std::int64_t end_of(const Box& box, std::size_t dim) {
  return box.offset[dim] + box.size[dim];
}

// How many elements one step along each dim skips.
Shape strides_of(const Shape& sizes) {
  Shape strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * sizes[d];
  }
  return strides;
}

// The largest box of whole rows that begins at element `from` and ends before
// `end`.
Box first_box(
    const Shape& shape,
    const Shape& strides,
    std::int64_t from,
    std::int64_t end) {
  Box box = dtensor::whole(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t index = from / strides[d] % shape[d];
    const std::int64_t rows = (end - from) / strides[d];
    box.offset[d] = index;
    if (from % strides[d] == 0 && rows > 0) {
      box.size[d] = std::min(rows, shape[d] - index);
      break; // all of the dims behind
    }
    box.size[d] = 1;
  }
  return box;
}

} // namespace

std::vector<Box> boxes_of_range(
    const Shape& shape, std::int64_t from, std::int64_t count) {
  const std::int64_t all = dtensor::numel(shape);
  ARGOSY_CHECK(
      from >= 0 && count >= 0 && count <= all && from <= all - count,
      "[checkpoint.boxes_of_range] elements {} to {} of a tensor of {}",
      from,
      from + count,
      all);
  const Shape strides = strides_of(shape);
  std::vector<Box> boxes;
  const std::int64_t end = from + count;
  while (from < end) {
    boxes.push_back(first_box(shape, strides, from, end));
    from += boxes.back().numel();
  }
  return boxes;
}

bool is_inside(const Box& box, const Shape& shape) {
  if (box.offset.size() != shape.size() || box.size.size() != shape.size()) {
    return false;
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    // In this order no sum overflows.
    if (box.size[d] < 0 || box.size[d] > shape[d] || box.offset[d] < 0 ||
        box.offset[d] > shape[d] - box.size[d]) {
      return false;
    }
  }
  return true;
}

bool intersects(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    if (std::max(a.offset[d], b.offset[d]) >=
        std::min(end_of(a, d), end_of(b, d))) {
      return false;
    }
  }
  return true;
}

std::int64_t count_common(const Box& a, const Box& b) {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    const std::int64_t begin = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(end_of(a, d), end_of(b, d));
    count *= std::max<std::int64_t>(end - begin, 0);
  }
  return count;
}

std::vector<Box> subtract(const Box& box, const Box& other) {
  if (box.numel() == 0) {
    return {};
  }
  if (!intersects(box, other)) {
    return {box};
  }
  // Cuts off what lies before and behind `other`, dim by dim; what remains in
  // the end is the part that both have.
  std::vector<Box> parts;
  Box rest = box;
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    if (rest.offset[d] < other.offset[d]) {
      Box before = rest;
      before.size[d] = other.offset[d] - rest.offset[d];
      parts.push_back(before);
    }
    if (end_of(rest, d) > end_of(other, d)) {
      Box behind = rest;
      behind.offset[d] = end_of(other, d);
      behind.size[d] = end_of(rest, d) - behind.offset[d];
      parts.push_back(behind);
    }
    const std::int64_t begin = std::max(rest.offset[d], other.offset[d]);
    rest.size[d] = std::min(end_of(rest, d), end_of(other, d)) - begin;
    rest.offset[d] = begin;
  }
  return parts;
}

namespace {

// What two boxes share, as rows of `length` elements that are contiguous in
// both: the dims from `dim` on are one, the dims before it count the rows.
struct CommonRows {
  Shape sizes; // of the dims before `dim`
  Shape from_strides;
  Shape to_strides;
  std::int64_t from = 0; // of the first row
  std::int64_t to = 0;
  std::int64_t length = 1;
  std::int64_t count = 1;

  Run run(std::int64_t row) const {
    Run run{from, to, length};
    for (std::size_t d = sizes.size(); d-- > 0;) {
      const std::int64_t index = row % sizes[d];
      row /= sizes[d];
      run.from += index * from_strides[d];
      run.to += index * to_strides[d];
    }
    return run;
  }
};

CommonRows common_rows(const Box& source, const Box& target) {
  const Box both = intersection(source, target);
  CommonRows rows;
  rows.sizes = both.size;
  rows.from_strides = strides_of(source.size);
  rows.to_strides = strides_of(target.size);
  for (std::size_t d = 0; d < both.size.size(); ++d) {
    rows.from += (both.offset[d] - source.offset[d]) * rows.from_strides[d];
    rows.to += (both.offset[d] - target.offset[d]) * rows.to_strides[d];
  }
  // A dim that both have in full joins the one before it.
  bool contiguous = true;
  while (contiguous && !rows.sizes.empty()) {
    const std::size_t d = rows.sizes.size() - 1;
    contiguous =
        both.size[d] == source.size[d] && both.size[d] == target.size[d];
    rows.length *= both.size[d];
    rows.sizes.pop_back();
  }
  rows.count = dtensor::numel(rows.sizes);
  return rows;
}

// The first row that ends behind element `begin` of the source.
std::int64_t first_row(const CommonRows& rows, std::int64_t begin) {
  std::int64_t low = 0;
  std::int64_t high = rows.count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (rows.run(middle).from + rows.length > begin) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

} // namespace

void for_each_run(
    const Box& source,
    std::int64_t begin,
    std::int64_t end,
    const Box& target,
    const std::function<void(const Run&)>& f) {
  if (begin >= end || !intersects(source, target)) {
    return;
  }
  const CommonRows rows = common_rows(source, target);
  for (std::int64_t row = first_row(rows, begin); row < rows.count; ++row) {
    Run run = rows.run(row);
    if (run.from >= end) {
      return;
    }
    const std::int64_t skipped = std::max<std::int64_t>(begin - run.from, 0);
    const std::int64_t last = std::min(run.from + run.count, end);
    f({run.from + skipped, run.to + skipped, last - run.from - skipped});
  }
}

namespace {

// How many of the first `end` elements of `source` are in `target`, which it
// intersects.
std::int64_t count_before(
    const Box& source, std::int64_t end, const Box& target) {
  std::int64_t stride = source.numel();
  std::int64_t inner = count_common(source, target);
  if (end >= stride) {
    return inner;
  }
  std::int64_t count = 0;
  for (std::size_t d = 0; d < source.size.size(); ++d) {
    const std::int64_t first = std::max(source.offset[d], target.offset[d]);
    const std::int64_t last = std::min(end_of(source, d), end_of(target, d));
    inner /= last - first; // in one step along this dim
    stride /= source.size[d];
    const std::int64_t index = source.offset[d] + end / stride;
    end %= stride;
    count += (std::clamp(index, first, last) - first) * inner;
    if (index < first || index >= last) {
      break;
    }
  }
  return count;
}

} // namespace

std::int64_t count_common(
    const Box& source,
    std::int64_t begin,
    std::int64_t end,
    const Box& target) {
  if (begin >= end || !intersects(source, target)) {
    return 0;
  }
  return count_before(source, end, target) -
      count_before(source, std::max<std::int64_t>(begin, 0), target);
}

} // namespace argosy::checkpoint
