#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

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

  // What draw() will return next.
  Draw next() {
    const std::lock_guard lock(mutex_);
    return next_;
  }

  // Goes on with what next() has returned, as a checkpoint kept it.
  void continue_at(const Draw& next) { set_next(next); }

  // While it lives, draws begin at one that was made before, if given.
  class Replay {
   public:
    Replay(RandomState& state, const std::optional<Draw>& drawn)
        : state_(state), before_(state.next()) {
      if (drawn) {
        state_.set_next(*drawn);
      }
    }
    ~Replay() { state_.set_next(before_); }
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

   private:
    RandomState& state_;
    const Draw before_;
  };

 private:
  void set_next(const Draw& next) {
    const std::lock_guard lock(mutex_);
    next_ = next;
  }

  std::mutex mutex_;
  Draw next_; // guarded by mutex_
};

} // namespace argosy::dtensor
