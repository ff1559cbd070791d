#pragma once

#include "argosy/common/thread_context.h"

namespace argosy::recomputation {

// While it lives, what backward in the calling thread has run again by
// recompute() stays for another backward through the same nodes, until these
// release it. Else it is given away at once, and the other runs it once more.
class KeepReplayed {
 public:
  KeepReplayed();

  // Whether the calling thread is in one.
  static bool is_inside();

 private:
  ScopedValue<bool> kept_;
};

} // namespace argosy::recomputation
