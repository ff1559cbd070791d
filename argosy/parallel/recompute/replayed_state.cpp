#include "argosy/parallel/recompute/replayed_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>

#include <mutex>
#include <utility>

#include "argosy/dtensor/mesh_state.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

std::shared_ptr<void> at_end(std::function<void()> action) {
  return {nullptr, [action = std::move(action)](void*) { action(); }};
}

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

RestoreState capture_generator() {
  return [then = generator_state()] {
    at::Tensor now = generator_state();
    set_generator_state(then);
    return at_end([now] { set_generator_state(now); });
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

struct Autocast {
  bool cpu = at::autocast::is_cpu_enabled();
  bool device = at::autocast::is_enabled();
  bool cache = at::autocast::is_autocast_cache_enabled();
  at::ScalarType cpu_dtype = at::autocast::get_autocast_cpu_dtype();
  at::ScalarType device_dtype = at::autocast::get_autocast_gpu_dtype();

  void set() const {
    at::autocast::set_cpu_enabled(cpu);
    at::autocast::set_enabled(device);
    at::autocast::set_autocast_cache_enabled(cache);
    at::autocast::set_autocast_cpu_dtype(cpu_dtype);
    at::autocast::set_autocast_gpu_dtype(device_dtype);
  }
};

RestoreState capture_autocast() {
  return [then = Autocast()] {
    const Autocast now;
    then.set();
    at::autocast::increment_nesting();
    return at_end([now] {
      // Casts of the replay must not outlive it.
      if (at::autocast::decrement_nesting() == 0) {
        at::autocast::clear_cache();
      }
      now.set();
    });
  };
}

// What modules above have added, for one rank.
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

namespace parallel {

ReplayedState::ReplayedState(bool with_random) {
  states_.push_back(capture_autocast());
  if (with_random) {
    states_.push_back(capture_generator());
  }
  const std::shared_ptr<World> world = current_world();
  if (!world) {
    return;
  }
  if (with_random) {
    states_.push_back(capture_dtensor_random());
  }
  const auto added = added_states(*world);
  const std::lock_guard lock(added->mutex);
  for (const CaptureState& capture : added->captures) {
    states_.push_back(capture());
  }
}

std::vector<std::shared_ptr<void>> ReplayedState::restore() const {
  std::vector<std::shared_ptr<void>> guards;
  guards.reserve(states_.size());
  for (const RestoreState& state : states_) {
    guards.push_back(state());
  }
  return guards;
}

} // namespace parallel

} // namespace argosy
