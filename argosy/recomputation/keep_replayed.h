#pragma once

namespace argosy::recomputation {

// While it lives, tensors that recompute() has computed again during backward
// on this thread stay until the graph releases them, so that another backward
// through the same nodes finds them. Otherwise each tensor is handed out once,
// and another backward runs the function again.
class KeepReplayed {
 public:
  KeepReplayed();
  ~KeepReplayed();
  KeepReplayed(const KeepReplayed&) = delete;
  KeepReplayed& operator=(const KeepReplayed&) = delete;

  // Whether the calling thread has a scope.
  static bool is_inside();

 private:
  const bool outer_;
};

} // namespace argosy::recomputation
