#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "argosy/dtensor/layout/layout.h"
#include "argosy/mesh/process_mesh.h"

// Which part of a dataset each rank loads when a batch is cut over a mesh: in
// dim 0 which samples, in the other dims which part of each sample. Pure
// arithmetic.
namespace argosy {

// What a rank has of its neighbours' parts of one dim, beside its own.
struct Halo {
  std::int64_t before = 0;
  std::int64_t behind = 0;

  bool operator==(const Halo&) const = default;
};

// What becomes of a dim that its ranks do not divide.
enum class UnevenSlices {
  Keep, // as DTensors have it: the last ranks have less, or nothing
  Pad,  // all have equal parts: fill follows the sample
  Drop, // all have equal parts: the rest of the sample is left out
};

struct SliceOptions {
  std::vector<Halo> halos = {}; // of each dim of a sample; empty: none
  // A halo beyond the border of the sample is fill, as the padding of a
  // convolution; otherwise it is left out.
  bool fill_border = true;
  UnevenSlices uneven = UnevenSlices::Keep;
};

// The part of each sample that a rank loads. Dims are those of a sample.
struct SampleSlice {
  dtensor::Box read;     // of the sample
  dtensor::Shape before; // elements of fill in front of it, in each dim
  dtensor::Shape behind;

  // Of what the rank has.
  dtensor::Shape shape() const;
  bool has_fill() const;
  bool operator==(const SampleSlice&) const = default;
};

std::ostream& operator<<(std::ostream& out, const SampleSlice& slice);

// What a rank loads of a dataset. Ranks that load parts of the same samples
// have the same `replica`: give SamplerOptions these two numbers, and one seed.
struct LoadPlan {
  int num_replicas = 1;
  int replica = 0;
  SampleSlice slice;

  bool operator==(const LoadPlan&) const = default;
};

// Of samples of this shape, in batches that are placed so on the mesh: dim 0 of
// a batch is that of the samples, dim d + 1 is dim d of a sample. Throws
// InvalidArgument for partial placements, dims that a batch does not have,
// halos that are negative or not one for each dim, a dropped rest that leaves
// nothing, and a rank outside of the mesh.
LoadPlan plan_loading(
    const dtensor::Shape& sample,
    const ProcessMesh& mesh,
    const Placements& of_batch,
    int rank,
    const SliceOptions& options = {});

} // namespace argosy
