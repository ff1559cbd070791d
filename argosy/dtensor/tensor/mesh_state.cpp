#include "argosy/dtensor/tensor/mesh_state.h"

#include <utility>

#include "argosy/dtensor/tensor/gather_ahead.h"
#include "argosy/dtensor/tensor/reshard_run.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/world/world.h"

namespace argosy::dtensor {

MeshState::MeshState(
    std::shared_ptr<RankMesh> ranks,
    std::shared_ptr<RandomState> random,
    std::shared_ptr<OpNames> gathered,
    std::shared_ptr<ValueChecks> checks)
    : ranks_(std::move(ranks)),
      random_(std::move(random)),
      gathered_(std::move(gathered)),
      checks_(std::move(checks)),
      mesh_(ranks_->mesh()),
      is_member_(ranks_->is_member()) {}

at::Tensor MeshState::reshard(
    const at::Tensor& local,
    at::IntArrayRef global,
    const Placements& from,
    const Placements& to) {
  if (from == to || !is_member_) {
    return local;
  }
  PlanKey key{
      global.vec(),
      static_cast<std::int64_t>(local.itemsize()),
      from.code(),
      to.code()};
  std::shared_ptr<const ReshardPlan> plan;
  {
    const std::lock_guard lock(mutex_);
    auto& known = plans_[key];
    if (!known) {
      known = std::make_shared<const ReshardPlan>(
          plan_reshard(key.global, key.item_bytes, {mesh_, from}, {mesh_, to}));
    }
    plan = known;
  }
  return run_reshard(*plan, key.global, local, *ranks_, *ranks_);
}

at::Tensor MeshState::reshard(
    const at::Tensor& local,
    at::IntArrayRef global,
    const Placements& from,
    MeshState& other,
    const Placements& to) {
  if (&other == this) {
    return reshard(local, global, from, to);
  }
  const ReshardPlan plan = plan_reshard(
      global.vec(),
      static_cast<std::int64_t>(local.itemsize()),
      {mesh_, from},
      {other.mesh_, to});
  return run_reshard(plan, global.vec(), local, *ranks_, *other.ranks_);
}

void MeshState::add_gather_ahead(const std::shared_ptr<GatherAhead>& ahead) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ahead_, [](const auto& each) { return each.expired(); });
  ahead_.push_back(ahead);
  gathers_ahead_ = true;
}

at::Tensor MeshState::find_gathered(const Parts& input, const Placements& to) {
  std::vector<std::weak_ptr<GatherAhead>> all;
  {
    const std::lock_guard lock(mutex_);
    all = ahead_;
  }
  for (const auto& each : all) {
    const auto ahead = each.lock();
    const at::Tensor found = ahead ? ahead->find(input, to) : at::Tensor();
    if (found.defined()) {
      return found;
    }
  }
  return {};
}

Box MeshState::local_box(
    at::IntArrayRef global, const Placements& placements) const {
  if (!is_member_) {
    return {{0}, {0}};
  }
  return dtensor::local_box(
      global.vec(), mesh_.shape(), placements, ranks_->coordinates());
}

Shape MeshState::local_shape(
    at::IntArrayRef global, const Placements& placements) const {
  return local_box(global, placements).size;
}

namespace {

struct States {
  const std::shared_ptr<RandomState> random = std::make_shared<RandomState>();
  const std::shared_ptr<OpNames> gathered = std::make_shared<OpNames>();
  std::mutex mutex;
  // Guarded by mutex.
  std::map<RankMesh*, std::shared_ptr<MeshState>> by_mesh;
};

std::shared_ptr<States> states_of_rank() {
  return require_world("dtensor")->attached<States>(
      [] { return std::make_shared<States>(); });
}

} // namespace

std::shared_ptr<MeshState> mesh_state(const ProcessMesh& mesh) {
  const auto ranks = rank_mesh(mesh);
  const auto states = states_of_rank();
  const std::lock_guard lock(states->mutex);
  auto& state = states->by_mesh[ranks.get()];
  if (!state) {
    state = std::make_shared<MeshState>(
        ranks, states->random, states->gathered, value_checks());
  }
  return state;
}

std::shared_ptr<RandomState> random_state() {
  return states_of_rank()->random;
}

std::shared_ptr<OpNames> gathered_ops() {
  return states_of_rank()->gathered;
}

} // namespace argosy::dtensor
