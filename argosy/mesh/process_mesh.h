#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace argosy {

// An n-dimensional array of ranks with named axes. Ranks may be in any order,
// and need not include all ranks of the world. Immutable and cheap to copy;
// does not communicate. No torch headers.
//
//   const auto mesh = ProcessMesh::of_shape({2, 4}, {"dp", "mp"});
//   mesh.get_mesh_with_dim("mp", 0);         // ranks 0 and 4
//   const auto pair = ProcessMesh::of_ranks({2, 5}, "mp");
class ProcessMesh {
 public:
  using Shape = std::vector<std::int64_t>;
  using Names = std::vector<std::string>;

  // Limits the placements of a tensor to one machine word.
  static constexpr int kMostAxes = 8;

  // An axis by index (negative: from the end) or by name.
  class Axis {
   public:
    Axis(int index) : value_(index) {}                    // NOLINT
    Axis(const char* name) : value_(std::string(name)) {} // NOLINT
    Axis(std::string name) : value_(std::move(name)) {}   // NOLINT
    const std::variant<int, std::string>& value() const { return value_; }

   private:
    std::variant<int, std::string> value_;
  };

  // These throw InvalidArgument for duplicate or negative ranks, for duplicate
  // names, and for numbers of ranks or names that do not fit the shape.

  // Ranks 0, 1, 2, ... in row-major order; names default to d0, d1, ...
  static ProcessMesh of_shape(Shape shape, Names names = {});
  // These ranks, on one axis.
  static ProcessMesh of_ranks(
      std::vector<int> process_ids, std::string name = "d0");
  // `process_ids` are in row-major order.
  ProcessMesh(Shape shape, std::vector<int> process_ids, Names names);
  // {0, 1} would be a shape to one reader, and ranks to a reader who knows
  // Paddle: write of_shape() or of_ranks().
  explicit ProcessMesh(Shape shape, Names names = {}) = delete;

  int ndim() const { return static_cast<int>(rep_->shape.size()); }
  int size() const { return static_cast<int>(rep_->ids.size()); }
  const Shape& shape() const { return rep_->shape; }
  const Names& dim_names() const { return rep_->names; }
  const std::vector<int>& process_ids() const { return rep_->ids; }
  std::int64_t get_dim_size(const Axis& axis) const;

  // Returns the index of an axis. Throws InvalidArgument if it does not exist.
  int axis_index(const Axis& axis) const;

  bool contains(int rank) const { return index_of(rank) >= 0; }
  // Returns the index of a rank in process_ids(), or -1.
  int index_of(int rank) const;
  // Returns the coordinates of a rank; nullopt if it is not in the mesh.
  std::optional<Shape> coordinates_of(int rank) const;
  Shape coordinates_at(int index) const;
  // Returns the coordinate of a rank on one axis, or -1.
  std::int64_t get_rank_by_dim_and_process_id(
      const Axis& axis, int process_id) const;
  int rank_at(const Shape& coordinates) const;

  // Returns the mesh with that axis first; with an index, the sub-mesh there.
  ProcessMesh get_mesh_with_dim(
      const Axis& axis, std::optional<std::int64_t> index = {}) const;
  // Returns the sub-mesh where `axis` has that index. For a mesh with one axis,
  // the result has that single rank.
  ProcessMesh at(const Axis& axis, std::int64_t index) const;
  ProcessMesh operator[](std::int64_t index) const { return at(0, index); }
  // Transposes the mesh.
  ProcessMesh permuted(const std::vector<Axis>& axes) const;
  // Returns the sub-mesh over `axes` that contains `rank`.
  ProcessMesh slice_through(int rank, const std::vector<int>& axes) const;

  // Compares shapes and ranks; ignores names.
  bool operator==(const ProcessMesh& other) const;

 private:
  struct Rep {
    Shape shape;
    std::vector<int> ids;
    Names names;
  };

  std::size_t at_axis(const Axis& axis) const;

  std::shared_ptr<const Rep> rep_;
};

// "ProcessMesh(shape=[2, 2], process_ids=[0, 1, 2, 3], dim_names=[d0, d1])"
std::string to_string(const ProcessMesh& mesh);
std::ostream& operator<<(std::ostream& out, const ProcessMesh& mesh);

} // namespace argosy
