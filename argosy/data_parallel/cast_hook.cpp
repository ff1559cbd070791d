// Gradients as numbers of 16 bits.

#include <map>

#include "argosy/data_parallel/compression.h"

namespace argosy {

namespace {

using data_parallel::BucketView;

class CastHook final : public data_parallel::BucketHook {
 public:
  explicit CastHook(c10::ScalarType type) : type_(type) {}

  void start(const BucketView& bucket, const GroupPtr& group) override {
    Sent& sent = sent_[bucket.index];
    sent.data = bucket.flat.to(type_); // the same tensor if it has that type
    sent.work = all_reduce(sent.data, ReduceOp::AVG, group, false);
  }

  void finish(const BucketView& bucket, const GroupPtr& /*group*/) override {
    const Sent& sent = sent_.at(bucket.index);
    sent.work->wait();
    if (!sent.data.is_same(bucket.flat)) {
      bucket.flat.copy_(sent.data);
    }
    sent_.erase(bucket.index);
  }

 private:
  struct Sent {
    at::Tensor data;
    WorkPtr work;
  };

  const c10::ScalarType type_;
  std::map<std::size_t, Sent> sent_; // by bucket
};

} // namespace

std::shared_ptr<data_parallel::BucketHook> fp16_compression() {
  return std::make_shared<CastHook>(c10::kHalf);
}

std::shared_ptr<data_parallel::BucketHook> bf16_compression() {
  return std::make_shared<CastHook>(c10::kBFloat16);
}

} // namespace argosy
