#pragma once

#include <cstdint>
#include <mutex>

namespace argosy::dtensor {

// Which random numbers come next. All ranks draw alike, so theirs are the same.
// Thread-safe.
class RandomState {
 public:
  // A tensor's worth of numbers: each element's depend on these two and on its
  // place in the whole tensor.
  struct Draw {
    std::uint64_t seed = 0;
    std::uint64_t stream = 0;
  };

  void set_seed(std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    next_ = {seed, 0};
  }

  Draw draw() {
    const std::lock_guard lock(mutex_);
    Draw drawn = next_;
    ++next_.stream;
    return drawn;
  }

 private:
  std::mutex mutex_;
  Draw next_; // guarded by mutex_
};

} // namespace argosy::dtensor
