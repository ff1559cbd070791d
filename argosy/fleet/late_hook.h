#pragma once

#include <memory>

#include "argosy/data_parallel/bucket_hook.h"

namespace argosy::fleet {

// A hook that is told later what it is. Deep gradient compression needs the
// momentum of the optimizer, which may be made after the model.
class LateHook final : public data_parallel::BucketHook {
 public:
  void set(std::shared_ptr<data_parallel::BucketHook> hook) {
    hook_ = std::move(hook);
  }

  // Throw InvalidArgument before set().
  void start(
      const data_parallel::BucketView& bucket, const GroupPtr& group) override;
  void finish(
      const data_parallel::BucketView& bucket, const GroupPtr& group) override;

 private:
  std::shared_ptr<data_parallel::BucketHook> hook_;
};

} // namespace argosy::fleet
