#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "argosy/comm/ops.h"

namespace argosy::data_parallel {

// The gradients of one bucket: `flat` has them side by side, `gradients` are
// views of it in the shapes of the parameters.
struct BucketView {
  std::size_t index = 0;
  at::Tensor flat;
  std::vector<at::Tensor> gradients;
  // Which parameters they are of: stays when the buckets are planned anew.
  std::vector<std::size_t> parameters;
};

// How the gradients of a bucket become the average over the ranks: all_reduce,
// or something that sends less. All ranks call the same, in the same order.
class BucketHook {
 public:
  virtual ~BucketHook() = default;

  // The bucket is full. Must return soon: backward waits for it.
  virtual void start(const BucketView& bucket, const GroupPtr& group) = 0;

  // At the end of backward, in the order of start(): returns when the bucket
  // holds the averages.
  virtual void finish(const BucketView& bucket, const GroupPtr& group) = 0;
};

// The plain average, asynchronous and in place.
std::shared_ptr<BucketHook> make_all_reduce_hook();

} // namespace argosy::data_parallel
