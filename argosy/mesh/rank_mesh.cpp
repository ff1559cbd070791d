#include "argosy/mesh/rank_mesh.h"

#include <algorithm>
#include <utility>

#include "argosy/comm/group.h"
#include "argosy/common/error.h"
#include "argosy/world/world.h"

namespace argosy {

RankMesh::RankMesh(const std::shared_ptr<World>& world, ProcessMesh mesh)
    : world_(world),
      mesh_(std::move(mesh)),
      rank_(world->rank()),
      coordinates_(mesh_.coordinates_of(rank_)) {}

const ProcessMesh::Shape& RankMesh::coordinates() const {
  ARGOSY_CHECK(is_member(), "[mesh] rank {} is not in {}", rank_, mesh_);
  return *coordinates_;
}

std::shared_ptr<Group> RankMesh::group_over(const std::vector<int>& axes) {
  std::uint32_t bits = 0;
  for (const int axis : axes) {
    // One key for a set of axes; axis_index() resolves negative ones.
    bits |= 1u << mesh_.axis_index(axis);
  }
  // Held while the group is made, so that two threads that ask for it first get
  // the same one.
  const std::lock_guard lock(mutex_);
  auto& group = groups_[bits];
  if (!group) {
    group = group_of(mesh_.slice_through(rank_, axes).process_ids());
  }
  return group;
}

std::shared_ptr<Group> RankMesh::group(const ProcessMesh::Axis& axis) {
  return group_over({mesh_.axis_index(axis)});
}

std::shared_ptr<Group> RankMesh::group_of(const std::vector<int>& ranks) {
  // Weak, since the world owns its meshes: a strong pointer would be a cycle.
  const auto world = world_.lock();
  ARGOSY_CHECK(world, "[mesh] the world of {} has ended", mesh_);
  return shared_group(world, ranks);
}

namespace {

// The meshes of a rank, attached to its world.
class Meshes {
 public:
  std::shared_ptr<RankMesh> find(
      const std::shared_ptr<World>& world, const ProcessMesh& mesh) {
    const std::lock_guard lock(mutex_);
    for (const auto& known : known_) {
      if (known->mesh() == mesh) {
        return known;
      }
    }
    // A known mesh passed this check when it was added.
    for (const int id : mesh.process_ids()) {
      ARGOSY_CHECK(
          id < world->size(),
          "[mesh] there is no rank {} in a world of {}",
          id,
          world->size());
    }
    return known_.emplace_back(std::make_shared<RankMesh>(world, mesh));
  }

  void set_current(const ProcessMesh& mesh) {
    const std::lock_guard lock(mutex_);
    current_ = mesh;
  }

  std::optional<ProcessMesh> current() {
    const std::lock_guard lock(mutex_);
    return current_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<RankMesh>> known_; // guarded by mutex_
  std::optional<ProcessMesh> current_;           // guarded by mutex_
};

std::shared_ptr<Meshes> meshes_of(const std::shared_ptr<World>& world) {
  return world->attached<Meshes>([] { return std::make_shared<Meshes>(); });
}

} // namespace

std::shared_ptr<RankMesh> rank_mesh(const ProcessMesh& mesh) {
  const auto world = require_world("mesh");
  return meshes_of(world)->find(world, mesh);
}

void set_mesh(const ProcessMesh& mesh) {
  meshes_of(require_world("mesh.set_mesh"))->set_current(mesh);
}

std::optional<ProcessMesh> get_mesh() {
  return meshes_of(require_world("mesh.get_mesh"))->current();
}

ProcessMesh require_mesh(const char* op) {
  const auto mesh = meshes_of(require_world(op))->current();
  ARGOSY_CHECK(
      mesh,
      "[{}] no mesh is given, and this rank has no current one; pass a mesh, "
      "or call set_mesh() before",
      op);
  return *mesh;
}

} // namespace argosy
