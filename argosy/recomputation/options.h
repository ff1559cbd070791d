#pragma once

#include <memory>

#include "argosy/recomputation/activation_store.h"

namespace argosy {

class Group;

struct RecomputeOptions {
  // Draw the same random numbers in the replay: those of the CPU, of DTensors,
  // and of the streams of rng_states_tracker(). Ranks that are threads share
  // torch's default generator; inside of the function they use one of their
  // own.
  bool preserve_rng_state = true;

  // Stop the replay as soon as it has computed the needed tensors. Switch it
  // off if the function communicates and ranks may need different tensors.
  bool early_stop = true;

  // The next two say how inputs are kept, except leaves that require grad.

  // Each rank of the group keeps its slice; backward gathers. The inputs must
  // be the same on all ranks, as activations between tensor parallel layers
  // are. DTensors are kept as they are.
  std::shared_ptr<Group> partition = nullptr;

  // Keep inputs, or their slices, in a store instead of in memory.
  std::shared_ptr<ActivationStore> store = nullptr;
};

} // namespace argosy
