#include "argosy/tensor_parallel/nested_cuts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <ranges>

#include "argosy/optim/parts.h"
#include "argosy/torch_hooks/tensor_tag.h"
#include "argosy/training/held_part.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::tensor_parallel {

namespace {

// Runs with a dim of its own for the elements of a unit.
comm::PendingTensor of_units(
    const at::Tensor& tensor,
    const Cut& cut,
    const std::function<comm::PendingTensor(const at::Tensor&)>& start) {
  if (cut.group->nranks() == 1) {
    return [tensor] { return tensor; };
  }
  if (cut.unit == 1) {
    return start(tensor);
  }
  return [dim = cut.dim, result = start(by_unit(tensor, cut.dim, cut.unit))] {
    return result().flatten(dim, dim + 1);
  };
}

} // namespace

at::Tensor by_unit(
    const at::Tensor& tensor, std::int64_t dim, std::int64_t unit) {
  if (unit == 1) {
    return tensor;
  }
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  const auto at = sizes.begin() + dim;
  *at /= unit;
  sizes.insert(at + 1, unit);
  return tensor.reshape(sizes);
}

comm::ShardRange range_of(std::int64_t size, const Cut& cut) {
  const comm::ShardRange units = comm::shard_range(
      size / cut.unit, cut.group->nranks(), cut.group->rank());
  return {units.begin * cut.unit, units.size * cut.unit};
}

comm::PendingTensor gather_cut(
    const at::Tensor& part, const Cut& cut, bool sync_op) {
  return of_units(part, cut, [&](const at::Tensor& units) {
    return comm::gather_shards(
        units, cut.dim, cut.size / cut.unit, cut.group, sync_op);
  });
}

comm::PendingTensor sum_cut(
    const at::Tensor& summand, const Cut& cut, bool sync_op) {
  return of_units(summand, cut, [&](const at::Tensor& units) {
    return comm::reduce_shards(
        units, cut.dim, ReduceOp::SUM, cut.group, sync_op);
  });
}

bool divides(std::int64_t size, std::int64_t dim, const Cuts& cuts) {
  std::int64_t parts = 1;
  for (const Cut& cut : cuts) {
    parts *= cut.dim == dim ? cut.group->nranks() : 1;
  }
  return size % parts == 0;
}

Cuts with_sizes(Cuts cuts, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> left = sizes;
  for (Cut& cut : cuts) {
    std::int64_t& size = left.at(static_cast<std::size_t>(cut.dim));
    cut.size = size;
    size = range_of(size, cut).size;
  }
  return cuts;
}

comm::ShardRange own_range(
    std::int64_t size, std::int64_t dim, const Cuts& cuts) {
  comm::ShardRange range{0, size};
  for (const Cut& cut : cuts) {
    if (cut.dim == dim) {
      const comm::ShardRange inner = range_of(range.size, cut);
      range = {range.begin + inner.begin, inner.size};
    }
  }
  return range;
}

at::Tensor own_part(const at::Tensor& whole, const Cuts& cuts) {
  at::Tensor part = whole;
  for (const Cut& cut : cuts) {
    const comm::ShardRange own = range_of(part.size(cut.dim), cut);
    part = part.narrow(cut.dim, own.begin, own.size);
  }
  return part;
}

at::Tensor gathered(const at::Tensor& part, const Cuts& cuts) {
  at::Tensor whole = part;
  for (const Cut& cut : cuts | std::views::reverse) {
    whole = gather_cut(whole, cut)();
  }
  return whole;
}

void set_cuts(
    const at::Tensor& parameter,
    const Cuts& cuts,
    const dtensor::Shape& whole) {
  const bool is_cut = std::ranges::any_of(
      cuts, [](const Cut& cut) { return cut.group->nranks() > 1; });
  if (is_cut) {
    set_marks(parameter, {.is_distributed = true});
    torch_hooks::set_tag(parameter, cuts);
    optim::Groups groups;
    for (const Cut& cut : cuts) {
      groups.push_back(cut.group);
    }
    optim::set_part_groups(parameter, std::move(groups));
    dtensor::Box box = dtensor::whole(whole);
    for (std::size_t dim = 0; dim < whole.size(); ++dim) {
      const comm::ShardRange own =
          own_range(whole[dim], static_cast<std::int64_t>(dim), cuts);
      box.offset[dim] = own.begin;
      box.size[dim] = own.size;
    }
    training::set_held_box(parameter, whole, std::move(box));
  }
}

const Cuts* find_cuts(const at::Tensor& parameter) {
  return torch_hooks::find_tag<Cuts>(parameter);
}

} // namespace argosy::tensor_parallel
