#include "argosy/dtensor/ops/index_dims.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/letters.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/mesh_state.h"

namespace argosy::dtensor {

namespace {

// The dims that the indices have together.
Shape broadcast(const OpCall& call, const std::vector<int>& places) {
  Shape shape;
  for (const int input : places) {
    if (input < 0) {
      continue;
    }
    const Shape& own = call.shape(static_cast<std::size_t>(input));
    if (own.size() > shape.size()) {
      shape.insert(shape.begin(), own.size() - shape.size(), 1);
    }
    const std::size_t skipped = shape.size() - own.size();
    for (std::size_t d = 0; d < own.size(); ++d) {
      if (shape[skipped + d] == 1) {
        shape[skipped + d] = own[d];
      }
    }
  }
  return shape;
}

// LibTorch (as NumPy) puts the dims of indices that stand side by side where
// these were, and those of others at the front.
bool are_adjacent(const std::vector<int>& places) {
  const auto given = [](int place) { return place >= 0; };
  const auto first = std::ranges::find_if(places, given);
  const auto last = std::find_if(places.rbegin(), places.rend(), given).base();
  return std::all_of(first, last, given);
}

} // namespace

IndexDims index_dims(const OpCall& call, const std::vector<int>& places) {
  const Shape shape = broadcast(call, places);
  IndexDims dims{.self = first_letters(call.shape(0).size())};
  std::string together;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    together += static_cast<char>('a' + d);
  }
  std::size_t begin = std::string::npos;
  int count = 0;
  for (std::size_t dim = 0; dim < dims.self.size(); ++dim) {
    if (dim >= places.size() || places[dim] < 0) {
      dims.out += dims.self[dim];
      dims.out_shape.push_back(call.shape(0)[dim]);
      continue;
    }
    dims.self[dim] = '-';
    dims.indices.push_back(broadcast_letters(
        together, call.shape(static_cast<std::size_t>(places[dim])), shape));
    // The indices' dims go where the first of them stood in the result.
    begin = std::min(begin, dims.out.size());
    dims.only_dim = ++count == 1 ? static_cast<int>(dim) : -1;
  }
  if (places.size() > dims.self.size() || begin == std::string::npos) {
    return {};
  }
  begin = are_adjacent(places) ? begin : 0;
  dims.out.insert(begin, together);
  dims.out_shape.insert(
      dims.out_shape.begin() + static_cast<std::ptrdiff_t>(begin),
      shape.begin(),
      shape.end());
  return dims;
}

int only_index(const std::vector<c10::optional<at::Tensor>>& indices) {
  int only = -1;
  for (std::size_t dim = 0; dim < indices.size(); ++dim) {
    if (!indices[dim] || !indices[dim]->defined()) {
      continue;
    }
    if (only >= 0 || indices[dim]->scalar_type() != at::kLong) {
      return -1;
    }
    only = static_cast<int>(dim);
  }
  return only;
}

LocalIndex local_index(
    LocalCall& call,
    std::size_t dim,
    const at::Tensor& index,
    at::IntArrayRef global) {
  if (global.empty()) {
    return {}; // a number: dim 0 is not there
  }
  const Box box =
      call.mesh().local_box(global, call.decision().inputs[0].placements);
  const std::int64_t begin = box.offset[dim];
  const std::int64_t size = box.size[dim];
  const std::int64_t whole = global[dim];
  if (size == whole) {
    return {};
  }
  const auto is_within = [](const at::Tensor& places, std::int64_t n) {
    return places.ge(0).logical_and_(places.lt(n));
  };
  const at::Tensor positive = at::where(index.lt(0), index.add(whole), index);
  // The spare element would hide an index out of range, and the op itself would
  // not notice; throws what LibTorch throws.
  TORCH_CHECK_INDEX(
      is_within(positive, whole).all().item().toBool(),
      "index out of range in a dim of ",
      whole,
      " elements");
  const at::Tensor places = positive.sub(begin);
  const at::Tensor spare = at::scalar_tensor(size, places.options());
  return {false, at::where(is_within(places, size), places, spare)};
}

at::Tensor with_spare(const at::Tensor& tensor, std::size_t dim) {
  Shape shape = tensor.sizes().vec();
  const std::int64_t size = shape[dim]++;
  at::Tensor padded = at::empty(shape, tensor.options());
  padded.narrow(static_cast<std::int64_t>(dim), 0, size).copy_(tensor);
  return padded;
}

} // namespace argosy::dtensor
