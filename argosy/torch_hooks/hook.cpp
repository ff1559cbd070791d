#include "argosy/torch_hooks/hook.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <set>

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::torch_hooks {

namespace {

// In the order of the enum Hook, which indexes it.
constexpr std::array<std::string_view, 12> kNames{
    "allocator",
    "amx",
    "batch_norm",
    "deferred_init",
    "dtensor",
    "intercept",
    "layer_hooks",
    "malloc",
    "openblas",
    "save",
    "saved_tensors",
    "tensor_meter"};

struct State {
  enum Value : std::uint8_t { kUnknown, kInstalled, kNotInstalled };

  std::atomic<Value> value{kUnknown};
  std::mutex mutex; // held while the hook is being installed
};

// Function-local, so that constructors of static objects can install hooks.
std::array<State, kNames.size()>& states() {
  static std::array<State, kNames.size()> all;
  return all;
}

std::set<std::string> switched_off() {
  std::set<std::string> names;
  for (const std::string& name :
       split(Environment::of_process().get("ARGOSY_HOOKS_OFF", ""), ',')) {
    ARGOSY_CHECK(
        std::ranges::find(kNames, name) != kNames.end(),
        "[torch_hooks] ARGOSY_HOOKS_OFF names '{}', expected some of {}",
        name,
        join({kNames.begin(), kNames.end()}, ", "));
    names.insert(name);
  }
  return names;
}

} // namespace

std::string_view to_string(Hook hook) {
  return kNames[static_cast<std::size_t>(hook)];
}

std::vector<Hook> all_hooks() {
  std::vector<Hook> hooks;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    hooks.push_back(static_cast<Hook>(i));
  }
  return hooks;
}

std::vector<std::string> installed() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (states()[i].value == State::kInstalled) {
      names.emplace_back(kNames[i]);
    }
  }
  return names;
}

bool is_switched_off(Hook hook) {
  return switched_off().count(std::string(to_string(hook))) != 0;
}

bool install(Hook hook, const std::function<bool()>& how) {
  State& state = states()[static_cast<std::size_t>(hook)];
  // Checked again under the lock: two threads may arrive at once. If how()
  // throws, the state stays unknown and the next call tries again.
  if (state.value == State::kUnknown) {
    const std::lock_guard lock(state.mutex);
    if (state.value == State::kUnknown) {
      state.value = !is_switched_off(hook) && how() ? State::kInstalled
                                                    : State::kNotInstalled;
    }
  }
  return state.value == State::kInstalled;
}

void require(
    Hook hook, std::string_view feature, const std::function<void()>& how) {
  const bool is_there = install(hook, [&] {
    how();
    return true;
  });
  ARGOSY_CHECK(
      is_there,
      "[torch_hooks] {} needs the hook '{}', which ARGOSY_HOOKS_OFF switches "
      "off",
      feature,
      to_string(hook));
}

} // namespace argosy::torch_hooks
