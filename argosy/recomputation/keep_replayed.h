#pragma once

#include "argosy/common/thread_context.h"

namespace argosy::recomputation {

// While it lives, tensors that recompute() has computed again during backward
// on this thread stay until the graph releases them, so that another backward
// through the same nodes finds them. Otherwise each tensor is handed out once,
// and another backward runs the function again.
class KeepReplayed {
 public:
  KeepReplayed();

  // Whether the calling thread has a scope.
  static bool is_inside();

 private:
  ScopedValue<bool> kept_;
};

} // namespace argosy::recomputation
