#include "argosy/tensor_parallel/rng.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/dropout.h>

#include "argosy/common/error.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/torch_hooks/generator_state.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

using torch_hooks::set_state;
using torch_hooks::state_of;

} // namespace

struct RngStatesTracker::Stream {
  at::Generator generator;
  std::uint64_t seed;
};

RngStatesTracker::RngStatesTracker() = default;
RngStatesTracker::~RngStatesTracker() = default;

void RngStatesTracker::add(const std::string& name, std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, stream] : streams_) {
    ARGOSY_CHECK(
        known != name,
        "[tensor_parallel.rng] there already is a stream ",
        name);
    ARGOSY_CHECK(
        stream.seed != seed,
        "[tensor_parallel.rng] stream {} already has the seed {}",
        known,
        seed);
  }
  streams_.emplace(name, Stream{at::detail::createCPUGenerator(seed), seed});
}

bool RngStatesTracker::has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return streams_.count(name) > 0;
}

at::Generator RngStatesTracker::generator(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(name);
  ARGOSY_CHECK(
      found != streams_.end(),
      "[tensor_parallel.rng] there is no stream {}; add() or "
      "model_parallel_random_seed() makes one",
      name);
  return found->second.generator;
}

RngStatesTracker::States RngStatesTracker::get_states() const {
  const std::lock_guard lock(mutex_);
  States states;
  for (const auto& [name, stream] : streams_) {
    states.emplace(name, state_of(stream.generator));
  }
  return states;
}

void RngStatesTracker::set_states(const States& states) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, state] : states) {
    auto found = streams_.find(name);
    if (found == streams_.end()) {
      const at::Generator made = at::detail::createCPUGenerator();
      found = streams_.emplace(name, Stream{made, 0}).first;
    }
    set_state(found->second.generator, state);
    found->second.seed = found->second.generator.current_seed();
  }
}

void RngStatesTracker::reset() {
  const std::lock_guard lock(mutex_);
  streams_.clear();
}

RngStatesTracker::Scope RngStatesTracker::rng_state(
    const std::string& name) const {
  return Scope(generator(name));
}

std::shared_ptr<RngStatesTracker> rng_states_tracker() {
  return require_world("parallel.rng")->attached<RngStatesTracker>([] {
    return std::make_shared<RngStatesTracker>();
  });
}

void model_parallel_random_seed(
    std::uint64_t seed, const ModelParallelPlace& place) {
  const auto tracker = rng_states_tracker();
  tracker->reset();
  tracker->add(kGlobalRng, seed);
  tracker->add(
      kModelParallelRng,
      seed + 1 +
          static_cast<std::uint64_t>(
              place.mp_rank * place.pp_size + place.pp_rank));
  // Ops outside of a scope draw from the default generator, which the threads
  // of one process share.
  at::manual_seed(seed);
}

void model_parallel_random_seed(std::uint64_t seed) {
  if (const auto hybrid = current_hybrid_mesh()) {
    model_parallel_random_seed(
        seed,
        {.mp_rank = hybrid->rank_on("model"),
         .pp_rank = hybrid->rank_on("pipe"),
         .pp_size = hybrid->size_on("pipe")});
    return;
  }
  const auto world = require_world("parallel.model_parallel_random_seed");
  model_parallel_random_seed(seed, {.mp_rank = world->rank()});
}

// Activations that all ranks hold whole need the same mask everywhere, hence
// the global stream; slices need different masks, which the caller asks for
// with kModelParallelRng.
at::Tensor tensor_parallel::dropout(
    const at::Tensor& x, double p, const std::string& rng_name, bool training) {
  const auto tracker = rng_states_tracker();
  if (rng_name.empty() && !tracker->has(kGlobalRng)) {
    return at::dropout(x, p, training);
  }
  const auto scope =
      tracker->rng_state(rng_name.empty() ? kGlobalRng : rng_name);
  return at::dropout(x, p, training);
}

} // namespace argosy
