#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

#include "argosy/common/thread_context.h"

// What autograd does with the tensors that ops save for their backward.
namespace argosy::torch_hooks {

// Keeps one of them.
class SavedTensorHook : public torch::autograd::SavedVariableHooks {
 public:
  // Called once, by the op.
  virtual void pack(const at::Tensor& tensor) = 0;
  // Called by backward, each time that it comes by.
  virtual at::Tensor unpack() = 0;

 private:
  void call_pack_hook(const at::Tensor& tensor) final { pack(tensor); }
  at::Tensor call_unpack_hook() final { return unpack(); }
};

// Makes a hook for each.
class SavedTensorKeeper {
 public:
  virtual ~SavedTensorKeeper() = default;
  virtual std::unique_ptr<SavedTensorHook> hook() = 0;
};

// While it lives, `keeper` makes a hook for each tensor that ops of the calling
// thread save. Scopes nest: the innermost counts, and they end in the reverse
// order.
//
// LibTorch asks its autograd engine for such hooks, and has some for Python
// only. The first scope therefore replaces the engine of the process by one
// that differs in nothing else. Throws InvalidArgument when the program has an
// engine of its own (Python has), and when the hook is switched off.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorKeeper& keeper);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

  // Whether the calling thread is in one.
  static bool is_inside();

  // Whether it is the one that counts.
  bool is_innermost() const;

 private:
  SavedTensorKeeper& keeper_;
  SavedTensorScope* const outer_;
  friend class KeepingEngine;
};

// A tensor that is saved as ops save theirs: the hooks of the calling thread
// get it, and unpack() throws when it was written to since.
class SavedTensor {
 public:
  explicit SavedTensor(const at::Tensor& tensor)
      : saved_(tensor, /*is_output=*/false) {}

  at::Tensor unpack() const { return saved_.unpack(); }

 private:
  const torch::autograd::SavedVariable saved_;
};

// While it lives, backward() in the calling thread goes through a part of a
// graph only, and another backward() will unpack the same tensors: hooks should
// keep what they unpack until autograd releases them.
class KeepUnpacked {
 public:
  KeepUnpacked();

  // Whether the calling thread is in one.
  static bool is_inside();

 private:
  const ScopedValue<bool> kept_;
};

} // namespace argosy::torch_hooks
