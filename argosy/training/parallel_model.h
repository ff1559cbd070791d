#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "argosy/comm/ops.h"
#include "argosy/training/nested_tensors.h"

namespace torch::nn {
class Module;
}

namespace argosy::training {

// What a way of training in parallel does around a module, independent of the
// module's type. All ranks call these functions alike.
class ModelCore {
 public:
  virtual ~ModelCore() = default;

  virtual void before_forward() = 0;
  virtual void after_forward(const Tensors& outputs) = 0;

  // If false, gradients are not reduced: they stay on this rank and accumulate.
  virtual void set_sync(bool sync) = 0;
  virtual bool sync() const = 0;
  virtual void zero_grad() = 0;

  // Reduces what has accumulated without sync. Blocks; call it outside of
  // backward.
  virtual void reduce_gradients() = 0;

  // Whether this rank should keep parts of gradients only, also between passes
  // without sync.
  virtual bool keeps_gradient_parts() const { return false; }
  // Reduces what has accumulated without sync so far. Gradients of `whole` stay
  // on this rank until reduce_gradients(), which must follow. Blocks; call it
  // outside of backward.
  virtual void reduce_gradients_early(const Tensors& /*whole*/) {}

  // Brings parameters up to date, where stepping the wrapped optimizer directly
  // has left them as they were. Blocks.
  virtual void settle() {}

  // What this rank keeps for later steps besides parameters, for checkpoints:
  // the errors of compressed gradients. set_memory() takes what memory() gave
  // on this rank; what was of other ranks or parameters is left out.
  using Memory = std::map<std::string, at::Tensor>;
  virtual Memory memory() const { return {}; }
  virtual void set_memory(const Memory& /*memory*/) {}

  // Between the two, parameters are whole on all ranks. See Whole.
  virtual void begin_whole() {}
  virtual void end_whole() {}
};

// While it lives, gradients are not reduced: they stay on this rank and
// accumulate. Can be moved; the last owner ends it.
class NoSync {
 public:
  // `core` null: does nothing.
  explicit NoSync(std::shared_ptr<ModelCore> core);
  ~NoSync();
  NoSync(NoSync&& other) noexcept = default;
  // No assignment: the end of the old one would switch the new one off.
  NoSync& operator=(NoSync&&) = delete;

 private:
  std::shared_ptr<ModelCore> core_; // null: nothing to end
  bool before_ = false;
};

// While it lives, parameters are whole on all ranks, so that you can read or
// save them, or write to them on all ranks alike. All ranks must create and
// destroy it alike; creating it blocks.
class Whole {
 public:
  explicit Whole(std::shared_ptr<ModelCore> core) : core_(std::move(core)) {
    core_->begin_whole();
  }
  ~Whole() { core_->end_whole(); }
  Whole(const Whole&) = delete;
  Whole& operator=(const Whole&) = delete;

 private:
  const std::shared_ptr<ModelCore> core_;
};

// The module behind a holder, a pointer or an AnyModule.
template <typename Module>
torch::nn::Module& as_module(Module& module) {
  if constexpr (requires { *module.ptr(); }) {
    return *module.ptr();
  } else {
    return *module;
  }
}

template <typename Module, typename... Args>
decltype(auto) call_forward(Module& module, Args&&... args) {
  if constexpr (requires { module->forward(std::forward<Args>(args)...); }) {
    return module->forward(std::forward<Args>(args)...);
  } else {
    return module.forward(std::forward<Args>(args)...);
  }
}

// Wraps a module of any type; `Core` decides how it is trained.
template <typename Module, typename Core = ModelCore>
class ParallelModel {
 public:
  // Calls make(torch::nn::Module&), which returns a shared_ptr to the core.
  template <typename Make>
  ParallelModel(Module module, const Make& make)
      : module_(std::move(module)), core_(make(as_module(module_))) {}

  template <typename... Args>
  decltype(auto) forward(Args&&... args) {
    core_->before_forward();
    auto result = call_forward(module_, std::forward<Args>(args)...);
    Tensors outputs;
    for_each_tensor(
        result, [&](const at::Tensor& each) { outputs.push_back(each); });
    core_->after_forward(outputs);
    return result;
  }

  template <typename... Args>
  decltype(auto) operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  Module& module() { return module_; }
  auto operator->() { return &as_module(module_); }

  // Drops all gradients, which is cheaper than zeroing them.
  void zero_grad() { core_->zero_grad(); }

  // While the result lives, gradients are not reduced. With `local` false it
  // does nothing, for loops in which a condition decides:
  //
  //   const auto local = model.no_sync(i + 1 < passes);
  [[nodiscard]] NoSync no_sync(bool local = true) {
    return NoSync(local ? core_ : nullptr);
  }

  // While the result lives, parameters are whole on all ranks.
  [[nodiscard]] Whole whole() { return Whole(core_); }

  // For code that handles several wrappers alike.
  const std::shared_ptr<Core>& core() const { return core_; }

 private:
  Module module_;
  std::shared_ptr<Core> core_;
};

} // namespace argosy::training
