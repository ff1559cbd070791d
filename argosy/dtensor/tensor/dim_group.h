#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "argosy/dtensor/layout/layout.h"

namespace argosy {
class Group;
}

// Ranks that cut a dim among them give one another parts of it, for ops whose
// result on a rank takes more, or others, of its elements than the rank has:
// slices, halos of a convolution.
namespace argosy::dtensor {

class MeshState;

// The elements of a dim from `begin` up to `end`.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end > begin ? end - begin : 0; }
  bool operator==(const Range&) const = default;
};

Range overlap(const Range& a, const Range& b);

// The same, seen from the first element of `outer`.
Range within(const Range& range, const Range& outer);

// One for each rank of a group, in its order.
using Ranges = std::vector<Range>;

// The ranks of a mesh among which placements cut a dim.
class DimGroup {
 public:
  DimGroup(MeshState& mesh, int dim, const Placements& placements);

  int dim() const { return dim_; }
  bool is_cut() const { return group_ != nullptr; }
  std::size_t size() const { return members_.size(); }
  std::size_t own() const { return own_; }

  // What each member has of the dim of a tensor.
  Ranges ranges(const Shape& global, const Placements& placements) const;

  // Gives each member what it wants of what all have, each element once; or the
  // sum where several have it. All members must call it with the same ranges;
  // blocks, unless nobody lacks anything.
  at::Tensor exchange(
      const at::Tensor& local, const Ranges& have, const Ranges& want) const;
  at::Tensor exchange_sum(
      const at::Tensor& local, const Ranges& have, const Ranges& want) const;

  // What all members give, of these sizes, one after the other along the dim as
  // their parts of it are.
  at::Tensor concatenated(const at::Tensor& local, const Shape& sizes) const;

  const std::shared_ptr<Group>& group() const { return group_; }

 private:
  std::vector<at::Tensor> sends(
      const at::Tensor& local, const Ranges& have, const Ranges& want) const;

  const int dim_;
  const Shape mesh_shape_;
  std::shared_ptr<Group> group_; // null when nothing is cut
  std::vector<Shape> members_;   // their coordinates, in the group's order
  std::size_t own_ = 0;
};

} // namespace argosy::dtensor
