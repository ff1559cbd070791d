#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace argosy {

class World;

// Sets a state as it was, and returns what sets it back when it dies.
using RestoreState = std::function<std::shared_ptr<void>()>;

// Remembers a state of the calling thread's rank, say of a random generator.
using CaptureState = std::function<RestoreState()>;

// From now on, recompute() on this rank captures that state too, and restores
// it for the time of each replay. For what layers depend on beside their inputs
// and parameters; random numbers of the CPU and of DTensors, the streams of
// rng_states_tracker() and autocast are there already. Throws InvalidArgument
// when the thread has no world.
void add_replayed_state(CaptureState capture);

namespace recomputation {

// All states of the calling thread at one moment.
class ReplayedState {
 public:
  explicit ReplayedState(bool with_random);

  // They are as they were while the result lives.
  std::vector<std::shared_ptr<void>> restore() const;

  // To live as long as the first run. Ranks that are threads share torch's
  // generator, and draw what others would have drawn: theirs is another one
  // within the function.
  std::shared_ptr<void> first_run() const;

 private:
  void capture_random(World* world);

  std::vector<RestoreState> states_;
  RestoreState own_generator_; // of a rank that is a thread; else empty
};

} // namespace recomputation

} // namespace argosy
