#pragma once

#include "argosy/common/thread_context.h"

namespace argosy::training {

// While it lives, tells layers that backward on this thread starts from `scale`
// times the loss: divided by the number of microbatches, or scaled by a
// GradScaler. Layers that add a gradient of their own during backward, such as
// the auxiliary loss of a gate, multiply it by current(). Nested scopes replace
// each other.
class LossScale {
 public:
  explicit LossScale(double scale);

  // The scale of the innermost scope on this thread, or 1.
  static double current();

 private:
  ScopedValue<double> scale_;
};

} // namespace argosy::training
