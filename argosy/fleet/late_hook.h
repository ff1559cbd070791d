#pragma once

#include <memory>

#include "argosy/data_parallel/bucket_hook.h"

namespace argosy::fleet {

// Forwards to a hook that is set later: deep gradient compression needs the
// momentum of the optimizer, which may be made after the model.
class LateHook final : public data_parallel::BucketHook {
 public:
  void set(std::shared_ptr<data_parallel::BucketHook> hook) {
    hook_ = std::move(hook);
  }

  // Throws InvalidArgument before set().
  void start(
      const data_parallel::GradBucket& bucket, const GroupPtr& group) override;
  void finish(
      const data_parallel::GradBucket& bucket, const GroupPtr& group) override;
  void abandon(
      const data_parallel::GradBucket& bucket, const GroupPtr& group) override;

 private:
  std::shared_ptr<data_parallel::BucketHook> hook_;
};

} // namespace argosy::fleet
