#pragma once

#include <memory>

#include "argosy/parallel/recompute/activation_store.h"

namespace argosy {

class Group;

struct RecomputeOptions {
  // Random numbers (of the CPU's default generator, and of DTensors) are the
  // same in the replay. Thread ranks share the first of these, so what others
  // draw at the same time is in the way there.
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
