#pragma once

#include <memory>

#include "argosy/recomputation/activation_store.h"

namespace argosy {

class Group;

struct RecomputeOptions {
  // Random numbers are the same in the replay: those of the CPU, of DTensors,
  // and of the streams of rng_states_tracker(). Ranks that are threads share
  // torch's generator; within the function they have one of their own.
  bool preserve_rng_state = true;

  // The replay ends as soon as it has what is needed. Switch it off where ranks
  // may need different things of a function that communicates.
  bool early_stop = true;

  // How inputs are kept, unless they are leaves that require grad. DTensors are
  // kept whole under `partition`, as their placements say enough.

  // Each member keeps its n-th part; backward gathers. The inputs must be the
  // same on all members, as the activations of tensor parallelism are.
  std::shared_ptr<Group> partition = nullptr;

  // In a store, instead of in memory. With `partition`, the part.
  std::shared_ptr<ActivationStore> store = nullptr;
};

} // namespace argosy
