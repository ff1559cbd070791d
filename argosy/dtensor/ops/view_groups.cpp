#include "argosy/dtensor/ops/view_groups.h"

namespace argosy::dtensor {

namespace {

// The first dim from `begin` on that has more than one element, or `end`.
std::size_t first_long(const Shape& shape, std::size_t begin, std::size_t end) {
  while (begin < end && shape[begin] == 1) {
    ++begin;
  }
  return begin;
}

} // namespace

// Walks both shapes at once and splits them into groups: the shortest runs of
// dims with equally many elements on both sides. Elements stay within their
// group, row-major, so cutting the first dim of a group into equal chunks cuts
// the first dim on the other side into equal chunks too, if both can be divided
// by the ranks. Cutting any later dim of a group would give every rank
// scattered elements. Dims of one element belong to no group. Linear in the
// number of dims.
std::vector<int> sharded_dims(
    const Shape& in, const Shape& out, std::int64_t ranks) {
  std::vector<int> dims(in.size(), -1);
  if (numel(in) == 0 || numel(in) != numel(out)) {
    return dims;
  }
  std::size_t i = 0;
  std::size_t o = 0;
  while (true) {
    const std::size_t first_in = first_long(in, i, in.size());
    const std::size_t first_out = first_long(out, o, out.size());
    if (first_in == in.size() || first_out == out.size()) {
      return dims;
    }
    std::int64_t in_elements = in[first_in];
    std::int64_t out_elements = out[first_out];
    i = first_in + 1;
    o = first_out + 1;
    // Ends within both shapes, as these have equally many elements and none is
    // empty.
    while (in_elements != out_elements) {
      if (in_elements < out_elements) {
        in_elements *= in[i++];
      } else {
        out_elements *= out[o++];
      }
    }
    // A dim that is the same on both sides may be cut unevenly.
    const bool alone = i == first_in + 1 && o == first_out + 1;
    if (alone || (in[first_in] % ranks == 0 && out[first_out] % ranks == 0)) {
      dims[first_in] = static_cast<int>(first_out);
    }
  }
}

} // namespace argosy::dtensor
