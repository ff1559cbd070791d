#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "argosy/torch_hooks/thread_generator.h"

namespace at {
class Tensor;
}

namespace argosy {

// The stream for values that differ between tensor parallel ranks, such as
// dropout masks of split activations, and the stream for values that are the
// same on all of them.
inline constexpr const char* kModelParallelRng = "model_parallel_rng";
inline constexpr const char* kGlobalRng = "global_rng";

// The named random number streams of one rank. Each has its own generator, so
// that ranks that are threads of one process do not share it, as they share
// torch's default generator. Thread-safe.
class RngStatesTracker {
 public:
  using States = std::map<std::string, at::Tensor>;

  RngStatesTracker();
  ~RngStatesTracker();
  RngStatesTracker(const RngStatesTracker&) = delete;
  RngStatesTracker& operator=(const RngStatesTracker&) = delete;

  // Throws InvalidArgument if the name or the seed is already in use.
  void add(const std::string& name, std::uint64_t seed);
  bool has(const std::string& name) const;

  // Throws InvalidArgument if there is no stream of that name.
  at::Generator generator(const std::string& name) const;

  // The states of all streams, for checkpoints and for repeating random
  // numbers. set_states() creates streams that do not exist.
  States get_states() const;
  void set_states(const States& states);

  void reset();

  // While it lives, random ops of the calling thread without a generator of
  // their own draw from this stream, also inside of modules and composite ops.
  // Scopes nest. The thread that created one must destroy it.
  using Scope = torch_hooks::GeneratorScope;
  [[nodiscard]] Scope rng_state(
      const std::string& name = kModelParallelRng) const;

 private:
  struct Stream;

  mutable std::mutex mutex_;
  std::map<std::string, Stream> streams_; // guarded by mutex_
};

// The tracker of the calling thread's rank.
std::shared_ptr<RngStatesTracker> rng_states_tracker();

// The position of a rank in its tensor parallel group and in the pipeline.
struct ModelParallelPlace {
  int mp_rank = 0;
  int pp_rank = 0;
  int pp_size = 1;
};

// Resets the rank's streams: kGlobalRng with `seed`, which must be the same on
// all ranks, and kModelParallelRng with a different seed for each place. Also
// seeds torch's default generator with `seed`. Tensor parallel layers draw
// their initial values from kGlobalRng from then on.
void model_parallel_random_seed(
    std::uint64_t seed, const ModelParallelPlace& place);

// Does so with the rank's place in the current HybridMesh, or in
// the group of all ranks if there is none.
void model_parallel_random_seed(std::uint64_t seed);

namespace tensor_parallel {

// torch::dropout with random numbers of a stream. An empty name means
// kGlobalRng, or torch's default generator if the rank has none.
at::Tensor dropout(
    const at::Tensor& x,
    double p,
    const std::string& rng_name = {},
    bool training = true);

} // namespace tensor_parallel
} // namespace argosy
