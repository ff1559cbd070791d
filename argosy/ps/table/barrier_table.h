#pragma once

#include <vector>

namespace argosy::ps {

// Which trainers have arrived at a barrier. Holds no thread: the server answers
// all of them when arrive() says that the last one is here. One thread at a
// time.
class BarrierTable {
 public:
  explicit BarrierTable(int num_trainers);

  // Returns whether all have arrived; the barrier then begins anew. Throws
  // InvalidArgument for a trainer that does not exist or is already waiting.
  bool arrive(int trainer);

  // A trainer left or timed out: it no longer waits. Does nothing if it did
  // not.
  void withdraw(int trainer);

  std::vector<int> missing() const; // ascending
  long long rounds() const { return rounds_; }

 private:
  std::vector<bool> here_;
  int num_here_ = 0;
  long long rounds_ = 0;
};

} // namespace argosy::ps
