// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include "argosy/torch_hooks/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>

#include "argosy/common/error.h"
#include "argosy/common/thread_context.h"
#include "argosy/torch_hooks/hook.h"

namespace argosy::torch_hooks {

namespace {

struct InnermostScope {
  SavedTensorScope* scope = nullptr;
};

struct IsKept {
  bool value = false;
};

SavedTensorScope*& innermost() {
  return of_thread<InnermostScope>().scope;
}

} // namespace

// LibTorch calls get_default_saved_variable_hooks() whenever an op saves a
// tensor, on the thread that runs the op. The base class returns null: only
// Python's engine has hooks.
class KeepingEngine final : public torch::autograd::Engine {
 public:
  // Ends the engine's threads while they can still call virtual functions.
  ~KeepingEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks>
  get_default_saved_variable_hooks() override {
    const SavedTensorScope* scope = innermost();
    if (scope == nullptr) {
      return nullptr;
    }
    return scope->keeper_.hook();
  }

  static torch::autograd::Engine& get() {
    static KeepingEngine engine;
    return engine;
  }
};

namespace {

void install_engine() {
  using torch::autograd::Engine;
  ARGOSY_CHECK(
      // Ours derives from the base engine and would drop what another adds.
      &Engine::get_default_engine() == &Engine::get_base_engine(),
      "[parallel.recompute] the program has an autograd engine of its own, "
      "expected LibTorch's: recompute does not run under Python");
  torch::autograd::set_default_engine_stub(&KeepingEngine::get);
}

} // namespace

SavedTensorScope::SavedTensorScope(SavedTensorKeeper& keeper)
    : keeper_(keeper), outer_(innermost()) {
  // First: where it throws, no destructor runs that would restore the scope.
  require(Hook::kSavedTensors, "recompute()", install_engine);
  innermost() = this;
}

SavedTensorScope::~SavedTensorScope() {
  innermost() = outer_;
}

bool SavedTensorScope::is_inside() {
  return innermost() != nullptr;
}

bool SavedTensorScope::is_innermost() const {
  return innermost() == this;
}

KeepUnpacked::KeepUnpacked() : kept_(of_thread<IsKept>().value, true) {}

bool KeepUnpacked::is_inside() {
  return of_thread<IsKept>().value;
}

} // namespace argosy::torch_hooks
