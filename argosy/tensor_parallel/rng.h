#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace at {
class Tensor;
struct Generator;
} // namespace at

namespace argosy {

// Of what tensor parallel ranks have different parts of, as masks of
// activations that are cut; and of what they have alike.
inline constexpr const char* kModelParallelRng = "model_parallel_rng";
inline constexpr const char* kGlobalRng = "global_rng";

// Named streams of random numbers of one rank. Each is a generator of its own,
// so that ranks that are threads of one process do not share them, as they
// share torch's. Thread-safe.
class RngStatesTracker {
 public:
  using States = std::map<std::string, at::Tensor>;

  RngStatesTracker();
  ~RngStatesTracker();
  RngStatesTracker(const RngStatesTracker&) = delete;
  RngStatesTracker& operator=(const RngStatesTracker&) = delete;

  // Throws InvalidArgument for a name or a seed that is there already.
  void add(const std::string& name, std::uint64_t seed);
  bool has(const std::string& name) const;

  // Throws InvalidArgument when there is none of that name.
  at::Generator generator(const std::string& name) const;

  // Where every stream is, for checkpoints and for drawing the same again.
  // set_states() makes the streams that it does not find.
  States get_states() const;
  void set_states(const States& states);

  void reset();

  // While it lives, random ops of the calling thread that name no generator
  // draw from a stream, also those inside of modules and of the ops that they
  // call. Scopes nest; the thread that made one ends it.
  class Scope {
   public:
    explicit Scope(const at::Generator& generator);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // The generator of the calling thread's innermost scope, or null.
    static const at::Generator* current();

   private:
    const std::unique_ptr<at::Generator> generator_;
    const at::Generator* const outer_;
    const bool was_intercepted_;
  };
  [[nodiscard]] Scope rng_state(
      const std::string& name = kModelParallelRng) const;

 private:
  struct Stream;

  mutable std::mutex mutex_;
  std::map<std::string, Stream> streams_; // guarded by mutex_
};

// That of the calling thread's rank.
std::shared_ptr<RngStatesTracker> rng_states_tracker();

// This rank's place where parameters are cut, and the pipeline's stages.
struct ModelParallelPlace {
  int mp_rank = 0;
  int pp_rank = 0;
  int pp_size = 1;
};

// Starts the rank's streams anew: kGlobalRng with `seed`, which is to be the
// same on all ranks, and kModelParallelRng with another for each place. Seeds
// torch's own generator with `seed` too. Tensor-parallel layers draw their
// first values from kGlobalRng once it is there.
void model_parallel_random_seed(
    std::uint64_t seed, const ModelParallelPlace& place);

// The same for a rank's place on the axes of the current
// HybridMesh, or in the group of all ranks when there is none.
void model_parallel_random_seed(std::uint64_t seed);

namespace tensor_parallel {

// torch::dropout with the numbers of a stream; an empty name means kGlobalRng,
// or torch's generator where there is none.
at::Tensor dropout(
    const at::Tensor& x,
    double p,
    const std::string& rng_name = {},
    bool training = true);

} // namespace tensor_parallel
} // namespace argosy
