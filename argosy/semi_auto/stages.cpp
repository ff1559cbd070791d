#include "argosy/semi_auto/stages.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::semi_auto {

int sharding_axis(const ShardingStage& stage, const ProcessMesh& mesh) {
  ARGOSY_CHECK(
      stage.stage >= 0 && stage.stage <= 3,
      "[shard_optimizer] stage {}, expected 0 to 3",
      stage.stage);
  if (stage.axis) {
    return mesh.axis_index(*stage.axis);
  }
  if (mesh.ndim() == 1) {
    return 0;
  }
  const auto& names = mesh.dim_names();
  const auto found = std::ranges::find(names, "dp");
  ARGOSY_CHECK(
      found != names.end(),
      "[shard_optimizer] {} has no axis dp; set the axis of the stage",
      mesh);
  return static_cast<int>(found - names.begin());
}

Placements sharded_over(
    Placements placements, int axis, const std::vector<std::int64_t>& shape) {
  Placement& own = placements[static_cast<std::size_t>(axis)];
  if (!own.is_replicated()) {
    return placements;
  }
  // The first dim that no other axis cuts; a parameter with none left stays
  // replicated over this axis.
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    const bool cut = std::ranges::any_of(
        placements, [dim](Placement each) { return each.is_shard(dim); });
    if (!cut) {
      own = Shard(dim);
      return placements;
    }
  }
  return placements;
}

} // namespace argosy::semi_auto
