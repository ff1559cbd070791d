#include "argosy/dtensor/tensor/value_checks.h"

#include <numeric>

#include "argosy/comm/same_values.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/thread_context.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/world/world.h"

namespace argosy::dtensor {

namespace {

constexpr int kTimes = 3;

struct Trust {
  bool is_active = false;
};

} // namespace

std::uint64_t kind_of(const MeshState& mesh, const at::Tensor& data) {
  CallKey key;
  key.add(reinterpret_cast<std::uintptr_t>(&mesh));
  key.add(static_cast<std::uint64_t>(data.scalar_type()));
  for (const std::int64_t size : data.sizes()) {
    key.add(static_cast<std::uint64_t>(size));
  }
  return key.hash();
}

ValueChecks::ValueChecks()
    : times_(static_cast<int>(Environment::of_process()
                                  .find_int("ARGOSY_CHECK_VALUES", 0)
                                  .value_or(kTimes))) {}

void ValueChecks::set_times(int times) {
  const std::lock_guard lock(mutex_);
  times_ = times;
  done_.clear();
}

bool ValueChecks::take(std::uint64_t kind) {
  if (times() == 0 || TrustedValues::is_active()) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  int& done = done_[kind];
  if (done >= times()) {
    return false;
  }
  ++done;
  return true;
}

std::shared_ptr<ValueChecks> value_checks() {
  return require_world("dtensor")->attached<ValueChecks>(
      [] { return std::make_shared<ValueChecks>(); });
}

TrustedValues::TrustedValues() : outer_(of_thread<Trust>().is_active) {
  of_thread<Trust>().is_active = true;
}

TrustedValues::~TrustedValues() {
  of_thread<Trust>().is_active = outer_;
}

bool TrustedValues::is_active() {
  return of_thread<Trust>().is_active;
}

void check_equal_over(
    MeshState& mesh,
    const std::vector<int>& axes,
    const NamedTensors& tensors,
    const std::string& what) {
  const std::string difference =
      comm::first_difference(tensors, mesh.ranks().group_over(axes));
  ARGOSY_CHECK(
      difference.empty(),
      "{} {}. ARGOSY_CHECK_VALUES=0 switches this check off",
      what,
      difference);
}

void check_equal_on(
    MeshState& mesh, const NamedTensors& tensors, const std::string& what) {
  if (!mesh.is_member()) {
    return;
  }
  std::vector<int> axes(static_cast<std::size_t>(mesh.mesh().ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  check_equal_over(mesh, axes, tensors, what);
}

void check_plain(MeshState& mesh, const at::Tensor& data) {
  if (mesh.is_member() && mesh.checks().take(kind_of(mesh, data))) {
    check_equal_on(
        mesh,
        {{"data", data}},
        "[dtensor.shard_tensor] takes one tensor that all ranks of the mesh "
        "have. When each rank has its own part of it (one loader per rank), "
        "use from_local() or shard_dataloader(loader, mesh, axis, true); when "
        "all should have the same, broadcast() it first:");
  }
}

} // namespace argosy::dtensor
