#include "argosy/recomputation/saved_tensor_scope.h"

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <torch/csrc/autograd/engine.h>

#include "argosy/common/error.h"

namespace argosy::recomputation {

namespace {

thread_local SavedTensorScope* innermost = nullptr;

} // namespace

class KeepingEngine final : public torch::autograd::Engine {
 public:
  ~KeepingEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks>
  get_default_saved_variable_hooks() override {
    return innermost != nullptr ? innermost->keeper_.hooks() : nullptr;
  }

  static torch::autograd::Engine& get() {
    static KeepingEngine engine;
    return engine;
  }
};

namespace {

void install_engine() {
  using torch::autograd::Engine;
  static const bool installed = [] {
    if (&Engine::get_default_engine() != &Engine::get_base_engine()) {
      return false;
    }
    torch::autograd::set_default_engine_stub(&KeepingEngine::get);
    return true;
  }();
  ARGOSY_CHECK(
      installed,
      "[parallel.recompute] the program has an autograd engine of its own, "
      "expected LibTorch's: recompute does not run under Python");
}

} // namespace

SavedTensorScope::SavedTensorScope(SavedTensorKeeper& keeper)
    : keeper_(keeper), outer_(innermost) {
  install_engine();
  innermost = this;
}

SavedTensorScope::~SavedTensorScope() {
  innermost = outer_;
}

bool SavedTensorScope::is_inside() {
  return innermost != nullptr;
}

} // namespace argosy::recomputation
