#pragma once

#include <vector>

namespace argosy::ps {

// How many steps trainers have made, for learning-rate schedules. One thread at
// a time.
class GlobalStep {
 public:
  explicit GlobalStep(int num_trainers);

  // Adds steps of a trainer; returns the new total. Throws InvalidArgument for
  // a trainer that does not exist or a negative count.
  long long add(int trainer, long long steps);

  long long total() const { return total_; }
  long long of(int trainer) const;
  void set_total(long long total); // after a load

 private:
  std::vector<long long> steps_;
  long long total_ = 0;
};

} // namespace argosy::ps
