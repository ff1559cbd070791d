#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "argosy/mesh/process_mesh.h"

namespace argosy {

class Group;
class World;

// A mesh seen from one rank of the world: its coordinates, and the groups that
// it communicates in, created on first use. Thread-safe.
class RankMesh {
 public:
  RankMesh(const std::shared_ptr<World>& world, ProcessMesh mesh);

  const ProcessMesh& mesh() const { return mesh_; }
  int rank() const { return rank_; }
  bool is_member() const { return coordinates_.has_value(); }
  // Throws InvalidArgument when this rank is not in the mesh.
  const ProcessMesh::Shape& coordinates() const;

  // Return the group of ranks that differ from this one only on these axes, in
  // whatever order those are named: a group has its ranks in ascending order.
  std::shared_ptr<Group> group_over(const std::vector<int>& axes);
  std::shared_ptr<Group> group(const ProcessMesh::Axis& axis);

  // Returns the group of given ranks, which must include this one.
  std::shared_ptr<Group> group_of(const std::vector<int>& ranks);

 private:
  const std::weak_ptr<World> world_; // owns this object
  const ProcessMesh mesh_;
  const int rank_;
  const std::optional<ProcessMesh::Shape> coordinates_;

  std::mutex mutex_;
  // By set of axes, as bits; guarded by mutex_.
  std::map<std::uint32_t, std::shared_ptr<Group>> groups_;
};

// Returns the calling thread's view of a mesh; equal meshes yield the same
// object. Does not communicate. Throws InvalidArgument when the mesh has ranks
// that the world does not have.
std::shared_ptr<RankMesh> rank_mesh(const ProcessMesh& mesh);

// The default mesh of the calling thread's rank, used by functions that are
// given none.
void set_mesh(const ProcessMesh& mesh);
std::optional<ProcessMesh> get_mesh();

// Returns that mesh for the function `op`, which was given none. Throws
// InvalidArgument if there is none either.
ProcessMesh require_mesh(const char* op);

} // namespace argosy
