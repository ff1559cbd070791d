#pragma once

namespace argosy::recomputation {

// While it lives, what backward in the calling thread has run again by
// recompute() stays for another backward through the same nodes, until these
// release it. Else it is given away at once, and the other runs it once more.
class KeepReplayed {
 public:
  KeepReplayed();
  ~KeepReplayed();
  KeepReplayed(const KeepReplayed&) = delete;
  KeepReplayed& operator=(const KeepReplayed&) = delete;

  // Whether the calling thread is in one.
  static bool is_inside();

 private:
  const bool outer_;
};

} // namespace argosy::recomputation
