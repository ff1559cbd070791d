// Ops that arrange the same elements in another way. Shards follow their dim;
// Partial goes through all of them.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <optional>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/strided_view.h"
#include "argosy/dtensor/ops/view_groups.h"
#include "argosy/dtensor/tensor/decision_cache.h"

namespace argosy::dtensor {

namespace {

// A strategy for each dim of the input that has a place in the output (else
// -1), and for what is Partial.
std::vector<Strategy> by_dims(
    const OpCall& call, const std::vector<int>& out_dims) {
  std::vector<Strategy> strategies;
  for (std::size_t dim = 0; dim < out_dims.size(); ++dim) {
    if (out_dims[dim] >= 0) {
      strategies.push_back(
          call.strategy(Shard(static_cast<int>(dim)), Shard(out_dims[dim])));
    }
  }
  pass_first(strategies, call);
  return strategies;
}

std::vector<int> same_dims(std::size_t ndim) {
  std::vector<int> dims(ndim);
  for (std::size_t i = 0; i < ndim; ++i) {
    dims[i] = static_cast<int>(i);
  }
  return dims;
}

std::vector<Strategy> same(const OpCall& call) {
  return by_dims(call, same_dims(call.shape(0).size()));
}

std::vector<Strategy> transpose(const OpCall& call) {
  const std::size_t ndim = call.shape(0).size();
  std::vector<int> dims = same_dims(ndim);
  if (ndim > 0) {
    std::swap(
        dims[wrapped(call.integer("dim0", 0), ndim)],
        dims[wrapped(call.integer("dim1", 0), ndim)]);
  }
  return by_dims(call, dims);
}

std::vector<Strategy> t(const OpCall& call) {
  std::vector<int> dims = same_dims(call.shape(0).size());
  std::ranges::reverse(dims);
  return by_dims(call, dims);
}

std::vector<Strategy> permute(const OpCall& call) {
  const Shape order = call.integers("dims");
  std::vector<int> dims(order.size());
  for (std::size_t out = 0; out < order.size(); ++out) {
    dims[wrapped(order[out], order.size())] = static_cast<int>(out);
  }
  return by_dims(call, dims);
}

std::vector<Strategy> unsqueeze(const OpCall& call) {
  const std::size_t ndim = call.shape(0).size();
  const std::size_t added = wrapped(call.integer("dim", 0), ndim + 1);
  std::vector<int> dims = same_dims(ndim);
  for (std::size_t dim = added; dim < ndim; ++dim) {
    ++dims[dim];
  }
  return by_dims(call, dims);
}

// Of all dims of one element, or of one of them.
std::vector<Strategy> squeeze(const OpCall& call) {
  const std::size_t ndim = call.shape(0).size();
  const Shape whole = call.whole_shape("self");
  // By the whole shape: a dim of one element may be what outer axes left of a
  // longer one, which squeeze() does not remove.
  std::vector<int> dims(ndim, -1);
  int next = 0;
  for (std::size_t dim = 0; dim < ndim; ++dim) {
    const bool named =
        !call.has("dim") || wrapped(call.integer("dim", 0), ndim) == dim;
    if (!named || whole[dim] != 1) {
      dims[dim] = next++;
    }
  }
  return by_dims(call, dims);
}

// Dims that are expanded are whole; all ranks can make their part of them.
std::vector<Strategy> expand(const OpCall& call) {
  const Shape& in = call.shape(0);
  const Shape& out = call.out_shape(0);
  if (out.size() < in.size()) {
    return {};
  }
  const std::size_t added = out.size() - in.size();
  std::vector<int> dims(in.size(), -1);
  for (std::size_t dim = 0; dim < in.size(); ++dim) {
    if (in[dim] == out[dim + added]) {
      dims[dim] = static_cast<int>(dim + added);
    }
  }
  return by_dims(call, dims);
}

// Dims are matched by sharded_dims(). Where outer axes cut a dim unevenly, the
// shapes are those of the first ranks only, so that such a dim may stay cut
// only if the view leaves it as it is.
std::vector<Strategy> view(const OpCall& call) {
  auto dims = sharded_dims(call.shape(0), call.out_shape(0), call.axis_size());
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    const bool is_same = dims[dim] >= 0 &&
        call.out_shape(0)[static_cast<std::size_t>(dims[dim])] ==
            call.shape(0)[dim];
    if (call.is_cut_unevenly(0, dim) && !is_same) {
      dims[dim] = -1;
    }
  }
  return by_dims(call, dims);
}

// Gives the part the shape that it must have. Where it is not laid out as the
// whole is, its elements are copied.
void run_view(LocalCall& call) {
  const auto& expected = call.decision().outputs[0].tensors;
  if (expected.empty()) {
    call.run(); // which says what is wrong
    return;
  }
  const at::Tensor& self = call.argument(0).toTensor();
  const at::IntArrayRef shape = expected[0].local;
  // reshape() finds out at some length that a view will do.
  call.finish(
      self.is_contiguous() && c10::multiply_integers(shape) == self.numel()
          ? self.view(shape)
          : self.reshape(shape));
}

std::optional<StridedView> strided_view_of(
    const at::Tensor& self,
    const Shape& sizes,
    const Shape& strides,
    std::optional<std::int64_t> offset) {
  const std::int64_t first = self.storage_offset();
  return strided_view(
      {self.sizes().vec(), self.strides().vec()},
      {sizes, strides},
      offset.value_or(first) - first);
}

// What is a slice of the base leaves shards of the dims that it has whole.
std::vector<Strategy> as_strided(const OpCall& call) {
  const at::Tensor& self = call.tensor("self");
  std::optional<std::int64_t> offset;
  if (call.has("storage_offset")) {
    offset = call.integer("storage_offset", 0);
  }
  const Shape sizes = call.integers("size");
  const auto view =
      strided_view_of(self, sizes, call.integers("stride"), offset);
  if (!view) {
    return {};
  }
  std::vector<int> dims(call.shape(0).size(), -1);
  for (std::size_t j = 0; j < sizes.size(); ++j) {
    if (view->dims[j] >= 0 && sizes[j] == self.size(view->dims[j])) {
      dims[static_cast<std::size_t>(view->dims[j])] = static_cast<int>(j);
    }
  }
  return by_dims(call, dims);
}

// Strides are those of the whole: a part has the same slices by its own.
void run_as_strided(LocalCall& call) {
  const at::Tensor& whole = call.original("self").toTensor();
  const at::Tensor self = call.argument("self").toTensor();
  const c10::IValue& offset = call.argument("storage_offset");
  const auto view = strided_view_of(
      whole,
      call.argument("size").toIntVector(),
      call.argument("stride").toIntVector(),
      offset.isInt() ? std::make_optional(offset.toInt()) : std::nullopt);
  const auto& expected = call.decision().outputs[0].tensors;
  if (!view || expected.empty()) {
    // The arguments speak of the strides of the whole tensor, so `self`, which
    // is whole here, gets these before the op itself runs.
    const at::Tensor laid_out =
        at::empty_strided(whole.sizes(), whole.strides(), self.options());
    laid_out.copy_(self);
    call.argument("self") = laid_out;
    call.run();
    return;
  }
  std::int64_t first = self.storage_offset();
  for (std::size_t d = 0; d < view->starts.size(); ++d) {
    first += view->starts[d] * self.stride(static_cast<std::int64_t>(d));
  }
  Shape strides;
  for (std::size_t j = 0; j < view->dims.size(); ++j) {
    strides.push_back(
        view->dims[j] < 0 ? 0 : view->steps[j] * self.stride(view->dims[j]));
  }
  call.finish(self.as_strided(expected[0].local, strides, first));
}

} // namespace

void add_view_rules(RuleTable& table) {
  table.add("alias detach", {.strategies = same});
  table.add("transpose", {.strategies = transpose});
  table.add("t", {.strategies = t});
  table.add("permute", {.strategies = permute});
  table.add("unsqueeze", {.strategies = unsqueeze});
  table.add("squeeze", {.strategies = squeeze, .run = run_view});
  table.add("expand", {.strategies = expand, .localize = local_size});
  table.add(
      "view _unsafe_view _reshape_alias",
      {.strategies = view, .run = run_view});
  table.add("as_strided", {.strategies = as_strided, .run = run_as_strided});
}

} // namespace argosy::dtensor
