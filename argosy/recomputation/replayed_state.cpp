#include "argosy/recomputation/replayed_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <utility>

#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/torch_hooks/autocast.h"
#include "argosy/torch_hooks/generator_state.h"
#include "argosy/world/thread_binding.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

using torch_hooks::Autocast;
using torch_hooks::set_state;
using torch_hooks::state_of;

std::shared_ptr<void> at_end(std::function<void()> action) {
  return {nullptr, [action = std::move(action)](void*) { action(); }};
}

using GeneratorScope = RngStatesTracker::Scope;

RestoreState capture_generator(const at::Generator& generator) {
  return [generator, then = torch_hooks::state_of(generator)] {
    at::Tensor now = torch_hooks::state_of(generator);
    torch_hooks::set_state(generator, then);
    return at_end([generator, now] { torch_hooks::set_state(generator, now); });
  };
}

// Makes draws of the thread use this generator.
RestoreState capture_scope(const at::Generator& generator) {
  return [generator] { return std::make_shared<GeneratorScope>(generator); };
}

// Makes a new generator with the same seed for every run.
RestoreState own_generator() {
  at::Generator shared = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(shared.mutex());
  const std::uint64_t seed =
      at::check_generator<at::CPUGeneratorImpl>(shared)->random64();
  return [seed] {
    return std::make_shared<GeneratorScope>(
        at::detail::createCPUGenerator(seed));
  };
}

RestoreState capture_streams() {
  const auto tracker = rng_states_tracker();
  return [tracker, then = tracker->get_states()] {
    auto now = tracker->get_states();
    tracker->set_states(then);
    return at_end([tracker, now] { tracker->set_states(now); });
  };
}

RestoreState capture_dtensor_random() {
  const auto random = dtensor::random_state();
  return [random, then = random->next()]() -> std::shared_ptr<void> {
    return {
        new dtensor::RandomState::Replay(*random, then),
        [random](auto* replay) { delete replay; }};
  };
}

RestoreState capture_autocast() {
  return [then = torch_hooks::Autocast()] {
    const auto scope = std::make_shared<torch_hooks::AutocastScope>(then);
    torch_hooks::begin_casts();
    // The cache of casts must not outlive the replay.
    return at_end([scope] { torch_hooks::end_casts(); });
  };
}

// The states that other modules have added for one rank.
struct AddedStates {
  std::mutex mutex;
  std::vector<CaptureState> captures; // guarded by mutex
};

std::shared_ptr<AddedStates> added_states(World& world) {
  return world.attached<AddedStates>(
      [] { return std::make_shared<AddedStates>(); });
}

} // namespace

void add_replayed_state(CaptureState capture) {
  const auto added = added_states(*require_world("parallel.recompute"));
  const std::lock_guard lock(added->mutex);
  added->captures.push_back(std::move(capture));
}

namespace recomputation {

void ReplayedState::capture_random(World* world) {
  if (const at::Generator* scoped = GeneratorScope::current()) {
    states_.push_back(capture_generator(*scoped));
    states_.push_back(capture_scope(*scoped));
  } else if (world != nullptr && thread_binding().launch) {
    // Thread ranks share the default generator: setting its state back would
    // disturb the draws of the others.
    own_generator_ = own_generator();
    states_.push_back(own_generator_);
  } else {
    states_.push_back(capture_generator(at::detail::getDefaultCPUGenerator()));
  }
  if (world != nullptr) {
    states_.push_back(capture_dtensor_random());
    states_.push_back(capture_streams());
  }
}

ReplayedState::ReplayedState(bool with_random) {
  const std::shared_ptr<World> world = current_world();
  states_.push_back(capture_autocast());
  if (with_random) {
    capture_random(world.get());
  }
  if (!world) {
    return;
  }
  const auto added = added_states(*world);
  const std::lock_guard lock(added->mutex);
  for (const CaptureState& capture : added->captures) {
    states_.push_back(capture());
  }
}

std::shared_ptr<void> ReplayedState::first_run() const {
  return own_generator_ ? own_generator_() : nullptr;
}

std::shared_ptr<void> ReplayedState::restore() const {
  using Guards = std::vector<std::shared_ptr<void>>;
  const std::shared_ptr<Guards> guards(new Guards, [](Guards* all) {
    while (!all->empty()) {
      all->pop_back();
    }
    delete all;
  });
  for (const RestoreState& state : states_) {
    guards->push_back(state());
  }
  return guards;
}

} // namespace recomputation

} // namespace argosy
