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

// A tensor that an op wanted to save, by its number in the order of saving.
// Autograd's graph owns it.
struct Placeholder {
  std::size_t index = 0;
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::ScalarType::Undefined;
  at::Tensor value; // between a replay and the unpacking
};

// One call of recompute(): keeps the inputs in place of all that the function's
// ops save, and runs the function again when the first of them is needed. The
// tensors so found are given away one by one; who needs one again (backward
// twice) has it run again. Owned by its placeholders' hooks, that is by the
// graph.
//
// Within a function that is itself recomputed, the inputs are among what the
// outer frame replays.
class Frame final : public torch_hooks::SavedTensorKeeper,
                    public std::enable_shared_from_this<Frame> {
 public:
  using Replay = std::function<void(std::vector<at::Tensor> inputs)>;

  Frame(
      const RecomputeOptions& options,
      const std::vector<at::Tensor>& inputs,
      Replay replay);

  std::unique_ptr<torch_hooks::SavedTensorHook> hook() override;

  const ReplayedState& state() const { return state_; }

  std::shared_ptr<Placeholder> add(const at::Tensor& tensor);
  at::Tensor take(Placeholder& placeholder);

 private:
  void replay();
  // As many of the first placeholders as a replay must reach.
  std::size_t num_wanted() const;

  const bool early_stop_;
  const ReplayedState state_;
  std::vector<std::unique_ptr<KeptInput>> inputs_;
  const Replay replay_;

  std::mutex mutex_; // two threads may go backward through one graph
  std::vector<std::weak_ptr<Placeholder>> placeholders_; // guarded by mutex_
};

} // namespace argosy::recomputation
