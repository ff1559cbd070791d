#include "argosy/fleet/late_hook.h"

#include "argosy/common/error.h"

namespace argosy::fleet {

void LateHook::start(
    const data_parallel::GradBucket& bucket, const GroupPtr& group) {
  ARGOSY_CHECK(
      hook_,
      "[fleet.distributed_model] dgc needs the momentum of the optimizer: call "
      "distributed_optimizer() before backward()");
  hook_->start(bucket, group);
}

void LateHook::finish(
    const data_parallel::GradBucket& bucket, const GroupPtr& group) {
  hook_->finish(bucket, group);
}

void LateHook::abandon(
    const data_parallel::GradBucket& bucket, const GroupPtr& group) {
  if (hook_) {
    hook_->abandon(bucket, group);
  }
}

} // namespace argosy::fleet
