#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace at {
class Tensor;
}

namespace argosy::optim {

// Where a FusedOptimizer keeps its states between steps, when not in memory of
// its own: see FusedOptimizer::set_state_store(). States of parameters that
// follow each other are in one bucket; a step takes one bucket after the other.
class StateStore {
 public:
  virtual ~StateStore() = default;

  // What a bucket has at most, unless one parameter has more.
  virtual std::int64_t bucket_bytes() const = 0;

  // From now on there are buckets of these sizes, and no others. Called before
  // the first step, and after parameters were added.
  virtual void make_buckets(const std::vector<std::int64_t>& bytes) = 0;

  // The memory of a bucket, of type kByte, aligned to cache lines, with what
  // was there when it was put back. Holds until then. One is out at a time.
  virtual at::Tensor fetch(std::size_t bucket) = 0;
  virtual void put_back(std::size_t bucket, bool written) = 0;
};

} // namespace argosy::optim
