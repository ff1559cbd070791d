#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace argosy {

class World;

// Restores a captured state. Destroying the result sets the state back.
using RestoreState = std::function<std::shared_ptr<void>()>;

// Captures a state of the calling thread's rank, such as a random generator.
using CaptureState = std::function<RestoreState()>;

// From now on, recompute() on this rank also captures this state, and restores
// it during each replay. Use it for state that layers depend on besides inputs
// and parameters. Random numbers of the CPU and of DTensors, the streams of
// rng_states_tracker() and autocast need no call. Throws InvalidArgument if the
// thread has no world.
void add_replayed_state(CaptureState capture);

namespace recomputation {

// The captured states of the calling thread.
class ReplayedState {
 public:
  explicit ReplayedState(bool with_random);

  // Restores the states for as long as the result lives; the last is set back
  // first.
  std::shared_ptr<void> restore() const;

  // The result must live as long as the first run. Ranks that are threads share
  // torch's default generator, so that others may draw in between; during the
  // function each uses a generator of its own.
  std::shared_ptr<void> first_run() const;

 private:
  void capture_random(World* world);

  std::vector<RestoreState> states_;
  RestoreState own_generator_; // of a rank that is a thread; else empty
};

} // namespace recomputation

} // namespace argosy
