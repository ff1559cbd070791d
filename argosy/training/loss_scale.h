#pragma once

#include "argosy/common/thread_context.h"

namespace argosy::training {

// While it lives, what backward of the calling thread starts from is so many
// times the loss: divided by a number of microbatches, scaled for narrow types.
// For those who add to gradients in the midst of it. Replaces an outer one.
class LossScale {
 public:
  explicit LossScale(double scale);

  // 1 without one.
  static double current();

 private:
  ScopedValue<double> scale_;
};

} // namespace argosy::training
