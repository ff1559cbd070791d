#include "argosy/semi_auto/sample_slice.h"

#include <algorithm>
#include <ostream>

#include "argosy/common/error.h"

namespace argosy {

namespace {

using dtensor::Box;
using dtensor::Shape;

Shape coordinates_in(const ProcessMesh& mesh, int rank) {
  const auto coordinates = mesh.coordinates_of(rank);
  ARGOSY_CHECK(
      coordinates.has_value(),
      "[data.slice] rank {} is not in {}",
      rank,
      to_string(mesh));
  return *coordinates;
}

// The placements of a sample: one dim less.
Placements without_batch(const Placements& of_batch) {
  Placements of_sample = of_batch;
  for (std::size_t axis = 0; axis < of_batch.size(); ++axis) {
    ARGOSY_CHECK(
        !of_batch[axis].is_partial(),
        "[data.slice] placement {} of mesh axis {}, expected samples that are "
        "cut or replicated",
        to_string(of_batch[axis]),
        axis);
    if (of_batch[axis].is_shard()) {
      const int dim = of_batch[axis].dim();
      of_sample[axis] =
          dim == 0 ? Placement(Replicate()) : Placement(Shard(dim - 1));
    }
  }
  return of_sample;
}

// The shape that is cut: with all parts equal, if the options want that.
Shape cut_shape(
    const Shape& sample,
    const ProcessMesh& mesh,
    const Placements& of_sample,
    UnevenSlices uneven) {
  Shape result = sample;
  if (uneven == UnevenSlices::Keep) {
    return result;
  }
  for (std::size_t dim = 0; dim < sample.size(); ++dim) {
    std::int64_t parts = 1;
    for (std::size_t axis = 0; axis < of_sample.size(); ++axis) {
      parts *= of_sample[axis].is_shard(static_cast<int>(dim))
          ? mesh.shape()[axis]
          : 1;
    }
    const std::int64_t rest = sample[dim] % parts;
    if (rest > 0) {
      result[dim] += uneven == UnevenSlices::Pad ? parts - rest : -rest;
    }
    ARGOSY_CHECK(
        result[dim] > 0 || sample[dim] == 0,
        "[data.slice] dim {} of a sample has {} elements, which {} ranks do "
        "not share without the rest, expected at least one for each",
        dim,
        sample[dim],
        parts);
  }
  return result;
}

std::vector<Halo> checked_halos(const Shape& sample, const SliceOptions& how) {
  if (how.halos.empty()) {
    return std::vector<Halo>(sample.size());
  }
  ARGOSY_CHECK(
      how.halos.size() == sample.size(),
      "[data.slice] {} halos, expected one for each of {} dims of a sample",
      how.halos.size(),
      sample.size());
  for (const Halo& halo : how.halos) {
    ARGOSY_CHECK(
        halo.before >= 0 && halo.behind >= 0,
        "[data.slice] a halo of {} and {} elements, expected none or more",
        halo.before,
        halo.behind);
  }
  return how.halos;
}

// Of the part `own` of the shape `all`, in which a sample is or of which it is
// the beginning.
SampleSlice with_halos(
    const Box& own,
    const Shape& sample,
    const Shape& all,
    const std::vector<Halo>& halos,
    bool fill_border) {
  SampleSlice slice{
      .read = own,
      .before = Shape(sample.size()),
      .behind = Shape(sample.size())};
  for (std::size_t dim = 0; dim < sample.size(); ++dim) {
    if (own.size[dim] == 0) {
      continue; // who has nothing needs no neighbours
    }
    std::int64_t begin = own.offset[dim] - halos[dim].before;
    std::int64_t end = own.offset[dim] + own.size[dim] + halos[dim].behind;
    if (!fill_border) {
      begin = std::max<std::int64_t>(begin, 0);
      end = std::min(end, all[dim]);
    }
    const std::int64_t there = std::min(sample[dim], all[dim]);
    const std::int64_t first = std::clamp<std::int64_t>(begin, 0, there);
    const std::int64_t last = std::clamp<std::int64_t>(end, 0, there);
    slice.read.offset[dim] = first;
    slice.read.size[dim] = last - first;
    slice.before[dim] = begin < 0 ? std::min<std::int64_t>(end, 0) - begin : 0;
    slice.behind[dim] = end - begin - slice.before[dim] - (last - first);
  }
  return slice;
}

} // namespace

Shape SampleSlice::shape() const {
  Shape result = read.size;
  for (std::size_t dim = 0; dim < result.size(); ++dim) {
    result[dim] += before[dim] + behind[dim];
  }
  return result;
}

bool SampleSlice::has_fill() const {
  const auto is_some = [](std::int64_t size) { return size > 0; };
  return std::ranges::any_of(before, is_some) ||
      std::ranges::any_of(behind, is_some);
}

std::ostream& operator<<(std::ostream& out, const SampleSlice& slice) {
  out << slice.read;
  for (std::size_t dim = 0; dim < slice.before.size(); ++dim) {
    if (slice.before[dim] > 0 || slice.behind[dim] > 0) {
      out << ", fill of " << slice.before[dim] << " and " << slice.behind[dim]
          << " in dim " << dim;
    }
  }
  return out;
}

LoadPlan plan_loading(
    const Shape& sample,
    const ProcessMesh& mesh,
    const Placements& of_batch,
    int rank,
    const SliceOptions& options) {
  const Placements placements =
      normalized(of_batch, static_cast<int>(sample.size()) + 1, mesh.ndim());
  const Placements of_sample = without_batch(placements);
  const auto halos = checked_halos(sample, options);
  const Shape all = cut_shape(sample, mesh, of_sample, options.uneven);
  const Shape coordinates = coordinates_in(mesh, rank);
  LoadPlan plan;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard(0)) {
      const auto size = static_cast<int>(mesh.shape()[axis]);
      plan.num_replicas *= size;
      plan.replica = plan.replica * size + static_cast<int>(coordinates[axis]);
    }
  }
  plan.slice = with_halos(
      dtensor::local_box(all, mesh.shape(), of_sample, coordinates),
      sample,
      all,
      halos,
      options.fill_border);
  return plan;
}

} // namespace argosy
