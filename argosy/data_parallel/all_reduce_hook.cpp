#include <map>

#include "argosy/data_parallel/bucket_hook.h"

namespace argosy::data_parallel {

namespace {

class AllReduceHook final : public BucketHook {
 public:
  void start(const BucketView& bucket, const GroupPtr& group) override {
    works_[bucket.index] = all_reduce(bucket.flat, ReduceOp::AVG, group, false);
  }

  void finish(const BucketView& bucket, const GroupPtr& /*group*/) override {
    works_.at(bucket.index)->wait();
    works_.erase(bucket.index);
  }

 private:
  std::map<std::size_t, WorkPtr> works_; // by bucket
};

} // namespace

std::shared_ptr<BucketHook> make_all_reduce_hook() {
  return std::make_shared<AllReduceHook>();
}

} // namespace argosy::data_parallel
