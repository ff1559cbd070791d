#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/ops.h"

namespace argosy {

class RankMesh;

namespace tensor_parallel {
struct GridEvenness;
}

// How the ranks of a grid hold an activation [rows, ..., features].
//
//          two dimensions              three dimensions
//   Outer  features over x, then y     rows over z, then y; features over x
//   Inner  features over y, then x     rows over z, then x; features over y
//
// Each rank has one part of n, and no two ranks the same; where sizes do not
// divide, the last ranks have less, or nothing. GridLinear turns one layout
// into the other.
enum class GridLayout { Outer, Inner };

std::ostream& operator<<(std::ostream& out, GridLayout layout);

// A tensor parallel group as a grid of x times y, or x times y times z ranks,
// for the layers of grid_layers.h. Ranks follow each other along y, then x,
// then z. Cheap to copy.
class TensorGrid {
 public:
  // `shape` is {x, y} or {x, y, z}; {x, y, 1} cuts rows as three dimensions do.
  // `group` null: the group of the model axis (hybrid_mesh.h), or all ranks.
  // Groups of the axes are made on first use; only members call. Throws
  // InvalidArgument unless the shape has as many ranks as the group.
  explicit TensorGrid(
      const std::vector<std::int64_t>& shape, const GroupPtr& group = nullptr);

  bool cuts_rows() const { return shape_.size() == 3; }

  // The group of ranks that differ from this one on these axes alone, of "x",
  // "y" and "z". In two dimensions z has one rank.
  GroupPtr group_over(const std::vector<std::string>& axes) const;

  // Says that ranks may have parts of different sizes. part() and layers do so
  // where sizes do not divide; call it if ranks make such parts otherwise, on
  // all ranks and before layers use them. From then on whole(), and in three
  // dimensions GridLinear, also exchange a number for each cut.
  void expect_uneven() const;

  // This rank's part of a tensor that is the same on all ranks; backward
  // gathers. So many features as `unit` says stay together on one rank.
  at::Tensor part(
      const at::Tensor& whole,
      GridLayout layout = GridLayout::Outer,
      std::int64_t unit = 1) const;

  // The tensor of which the ranks have parts; backward takes this rank's part,
  // so the loss must be the same on all ranks. All ranks must call it; blocks.
  at::Tensor whole(
      const at::Tensor& part,
      GridLayout layout = GridLayout::Outer,
      std::int64_t unit = 1) const;

 private:
  std::vector<std::int64_t> shape_;
  std::shared_ptr<RankMesh> mesh_;
  std::shared_ptr<tensor_parallel::GridEvenness> evenness_; // of all copies
  friend std::shared_ptr<tensor_parallel::GridEvenness> evenness_of(
      const TensorGrid& grid);
};

} // namespace argosy
