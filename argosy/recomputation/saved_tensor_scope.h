#pragma once

#include <memory>

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace argosy::recomputation {

// Gives autograd what keeps a tensor that an op saves for its backward.
class SavedTensorKeeper {
 public:
  virtual ~SavedTensorKeeper() = default;
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() = 0;
};

// While it lives, `keeper` is asked for all that the calling thread's ops save;
// an inner scope takes its place. Scopes end in the reverse order.
//
// LibTorch asks its engine, and the hooks it has of its own are Python's. The
// first scope so makes an engine of ours the process's, which does all else as
// before; where a program has set another (Python does), throws
// InvalidArgument.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorKeeper& keeper);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

  // Whether the calling thread is in one.
  static bool is_inside();

 private:
  SavedTensorKeeper& keeper_;
  SavedTensorScope* const outer_;
  friend class KeepingEngine;
};

} // namespace argosy::recomputation
