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

// A mesh as one rank of the world sees it: where the rank stands, and the
// groups that it communicates in, each made when it is first asked for.
// Thread-safe.
class RankMesh {
 public:
  RankMesh(const std::shared_ptr<World>& world, ProcessMesh mesh);

  const ProcessMesh& mesh() const { return mesh_; }
  int rank() const { return rank_; }
  bool is_member() const { return coordinates_.has_value(); }
  // Throws InvalidArgument when this rank is not in the mesh.
  const ProcessMesh::Shape& coordinates() const;

  // The ranks that differ from this one on these axes only.
  std::shared_ptr<Group> group_over(const std::vector<int>& axes);
  std::shared_ptr<Group> group(const ProcessMesh::Axis& axis);

  // Of any ranks, this one among them.
  std::shared_ptr<Group> group_of(const std::vector<int>& ranks);

 private:
  const std::weak_ptr<World> world_; // which owns this
  const ProcessMesh mesh_;
  const int rank_;
  const std::optional<ProcessMesh::Shape> coordinates_;

  std::mutex mutex_;
  // By the set of axes as bits; guarded by mutex_.
  std::map<std::uint32_t, std::shared_ptr<Group>> groups_;
};

// The calling thread's view of a mesh; the same object for equal meshes. Does
// not communicate. Throws InvalidArgument when the mesh names ranks that the
// world does not have.
std::shared_ptr<RankMesh> rank_mesh(const ProcessMesh& mesh);

// The mesh that functions take when they are given none, for the calling
// thread's rank.
void set_mesh(const ProcessMesh& mesh);
std::optional<ProcessMesh> get_mesh();

} // namespace argosy
