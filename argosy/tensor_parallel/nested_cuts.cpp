#include "argosy/tensor_parallel/nested_cuts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <ranges>

#include "argosy/optim/parts.h"
#include "argosy/torch_hooks/tensor_tag.h"
#include "argosy/training/held_part.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::tensor_parallel {

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
    size = comm::shard_range(size, cut.group->nranks(), cut.group->rank()).size;
  }
  return cuts;
}

comm::ShardRange own_range(
    std::int64_t size, std::int64_t dim, const Cuts& cuts) {
  comm::ShardRange range{0, size};
  for (const Cut& cut : cuts) {
    if (cut.dim == dim) {
      const comm::ShardRange inner =
          comm::shard_range(range.size, cut.group->nranks(), cut.group->rank());
      range = {range.begin + inner.begin, inner.size};
    }
  }
  return range;
}

at::Tensor own_part(const at::Tensor& whole, const Cuts& cuts) {
  at::Tensor part = whole;
  for (const Cut& cut : cuts) {
    part = comm::own_shard(part, cut.dim, *cut.group);
  }
  return part;
}

at::Tensor gathered(const at::Tensor& part, const Cuts& cuts) {
  at::Tensor whole = part;
  for (const Cut& cut : cuts | std::views::reverse) {
    if (cut.group->nranks() > 1) {
      whole = comm::gather_shards(whole, cut.dim, cut.size, cut.group)();
    }
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
