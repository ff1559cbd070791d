#include "argosy/compat/hybrid_communicate_group.h"

#include <algorithm>
#include <array>
#include <utility>

#include "argosy/fleet/fleet.h"

namespace argosy {

namespace {

// fleet::init() sets a plain HybridMesh, because the core does not know this
// class. A copy of it shares its groups.
HybridCommunicateGroupPtr as_communicate_group(const HybridMeshPtr& mesh) {
  if (mesh == nullptr) {
    return nullptr;
  }
  if (auto group =
          std::dynamic_pointer_cast<const HybridCommunicateGroup>(mesh)) {
    return group;
  }
  return std::make_shared<HybridCommunicateGroup>(*mesh);
}

} // namespace

const char* to_string(ParallelMode mode) {
  constexpr std::array<const char*, 5> kNames = {
      "data", "tensor", "pipeline", "sharding", "segment"};
  return kNames[static_cast<std::size_t>(mode)];
}

ParallelMode HybridCommunicateGroup::get_parallel_mode() const {
  if (size_on("pipe") > 1) {
    return ParallelMode::PIPELINE_PARALLEL;
  }
  if (size_on("model") > 1) {
    return ParallelMode::TENSOR_PARALLEL;
  }
  if (size_on("sep") > 1) {
    return ParallelMode::SEGMENT_PARALLEL;
  }
  return size_on("sharding") > 1 ? ParallelMode::SHARDING_PARALLEL
                                 : ParallelMode::DATA_PARALLEL;
}

std::shared_ptr<Group> HybridCommunicateGroup::get_check_parallel_group(
    bool sharding) const {
  std::vector<std::string> axes = topology().get_hybrid_group_names();
  axes.erase(
      std::remove(axes.begin(), axes.end(), sharding ? "sharding" : "data"),
      axes.end());
  return group_over(axes);
}

void set_hybrid_communicate_group(HybridCommunicateGroupPtr group) {
  set_current_hybrid_mesh(std::move(group));
}

HybridCommunicateGroupPtr get_hybrid_communicate_group() {
  return as_communicate_group(current_hybrid_mesh());
}

namespace fleet {

HybridCommunicateGroupPtr get_hybrid_communicate_group() {
  return as_communicate_group(
      current_fleet("fleet.get_hybrid_communicate_group")->axes().hybrid);
}

} // namespace fleet

} // namespace argosy
