#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "argosy/recomputation/kept_input.h"
#include "argosy/recomputation/replayed_state.h"
#include "argosy/torch_hooks/saved_tensors.h"

namespace argosy::recomputation {

// Stands for a tensor that an op wanted to save. The autograd graph owns it.
struct Placeholder {
  std::size_t index = 0; // in the order of saving
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::ScalarType::Undefined;
  at::Tensor value; // defined between a replay and the unpacking
};

// One call of recompute(). It keeps the inputs instead of the tensors that the
// function's ops save, and runs the function again when backward needs the
// first of those. Each tensor is handed out once; if it is needed again (by a
// second backward), the function runs again. The hooks of the placeholders, and
// so the autograd graph, own it.
//
// If the function is itself part of a recomputed function, the replay of the
// outer call provides the inputs.
class RecomputedCall final
    : public torch_hooks::SavedTensorKeeper,
      public std::enable_shared_from_this<RecomputedCall> {
 public:
  using Replay = std::function<void(std::vector<at::Tensor> inputs)>;

  RecomputedCall(
      const RecomputeOptions& options,
      const std::vector<at::Tensor>& inputs,
      Replay replay);

  // Adds an input, for functions whose inputs show while they run. Call it
  // outside of the SavedTensorScope of this call.
  void keep(const at::Tensor& input);
  // Lets go of an input, by its number: replays get an undefined tensor
  // instead.
  void forget(std::size_t input);

  std::unique_ptr<torch_hooks::SavedTensorHook> hook() override;

  const ReplayedState& state() const { return state_; }

  std::shared_ptr<Placeholder> add(const at::Tensor& tensor);
  at::Tensor take(Placeholder& placeholder);

 private:
  void replay();
  // The number of placeholders, from the first, that a replay must fill.
  std::size_t num_wanted() const;

  const RecomputeOptions options_;
  const ReplayedState state_;
  std::vector<std::unique_ptr<KeptInput>> inputs_;
  const Replay replay_;

  std::mutex mutex_; // two threads may go backward through one graph
  std::vector<std::weak_ptr<Placeholder>> placeholders_; // guarded by mutex_
};

} // namespace argosy::recomputation
