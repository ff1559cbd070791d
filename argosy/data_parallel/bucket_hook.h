#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/ops.h"

namespace argosy::data_parallel {

// The gradients of one bucket. `gradients` are views of `flat` in the shapes of
// the parameters.
struct GradBucket {
  std::size_t index = 0;
  at::Tensor flat;
  std::vector<at::Tensor> gradients;
  // The indices of their parameters, as DataParallel numbers them. They stay
  // the same when the buckets are planned anew.
  std::vector<std::size_t> parameters;
  // The parameters themselves. Of a DTensor, the gradient is that of this
  // rank's part.
  std::vector<at::Tensor> values;
};

// What a hook keeps for later steps: "3.error" is of parameter 3.
using HookMemory = std::map<std::string, at::Tensor>;

// How the gradients of a bucket become the average over the ranks: an
// all_reduce, or something that sends less.
//
// All ranks call the same functions in the same order, on the thread that runs
// backward. For each bucket, start() is followed by finish() or abandon().
class BucketHook {
 public:
  virtual ~BucketHook() = default;

  // The bucket is full. Returns without waiting for other ranks, because
  // backward waits for it.
  virtual void start(const GradBucket& bucket, const GroupPtr& group) = 0;

  // Called at the end of backward, in the order of start(): returns when the
  // bucket holds the averages.
  virtual void finish(const GradBucket& bucket, const GroupPtr& group) = 0;

  // Backward has thrown after start(): waits for what start() has sent, and
  // forgets it. Must not communicate, because other ranks may not have failed.
  // The default calls finish(); override it if finish() communicates or changes
  // what the hook keeps for later steps.
  virtual void abandon(const GradBucket& bucket, const GroupPtr& group) {
    finish(bucket, group);
  }

  // For losses that a GradScaler scales, on all ranks alike. Gradients to come
  // are those of `scale` times the loss; what the hook keeps follows. Once this
  // has been called, settle() says after each step whether the optimizer took
  // the averages; if it skipped them as not finite, the hook keeps what it kept
  // before them.
  virtual void set_loss_scale(double /*scale*/) {}
  virtual void settle(bool /*taken*/) {}

  // For checkpoints, between steps: what it keeps, and, on the same rank with
  // the same parameters, what it should keep instead.
  virtual HookMemory memory() const { return {}; }
  virtual void set_memory(const HookMemory& /*memory*/) {}
};

// The plain average, asynchronous and in place.
std::shared_ptr<BucketHook> make_all_reduce_hook();

} // namespace argosy::data_parallel
