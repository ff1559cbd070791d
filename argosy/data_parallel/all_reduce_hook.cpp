// The plain average, and the average of gradients that are sent as 16-bit
// numbers.

#include <map>
#include <optional>

#include "argosy/common/fault_point.h"
#include "argosy/data_parallel/compression.h"

namespace argosy {

namespace data_parallel {

namespace {

class AllReduceHook final : public BucketHook {
 public:
  // `type` is what is sent; none: the type of the gradients.
  explicit AllReduceHook(std::optional<c10::ScalarType> type) : type_(type) {}

  void start(const GradBucket& bucket, const GroupPtr& group) override {
    fault_point("data_parallel.bucket");
    Sent& sent = sent_[bucket.index];
    sent.data = type_ ? bucket.flat.to(*type_) : bucket.flat;
    sent.work = all_reduce(sent.data, ReduceOp::AVG, group, false);
  }

  void finish(const GradBucket& bucket, const GroupPtr& /*group*/) override {
    const Sent sent = std::move(sent_.at(bucket.index));
    sent_.erase(bucket.index);
    // `sent` holds the 16-bit copy until the work has ended.
    sent.work->wait();
    if (!sent.data.is_same(bucket.flat)) {
      bucket.flat.copy_(sent.data);
    }
  }

 private:
  struct Sent {
    at::Tensor data;
    WorkPtr work;
  };

  const std::optional<c10::ScalarType> type_;
  std::map<std::size_t, Sent> sent_; // by bucket
};

} // namespace

std::shared_ptr<BucketHook> make_all_reduce_hook() {
  return std::make_shared<AllReduceHook>(std::nullopt);
}

} // namespace data_parallel

std::shared_ptr<data_parallel::BucketHook> fp16_compression() {
  return std::make_shared<data_parallel::AllReduceHook>(c10::kHalf);
}

std::shared_ptr<data_parallel::BucketHook> bf16_compression() {
  return std::make_shared<data_parallel::AllReduceHook>(c10::kBFloat16);
}

} // namespace argosy
