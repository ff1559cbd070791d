#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "argosy/recomputation/options.h"
#include "argosy/training/nested_tensors.h"

namespace argosy {

namespace torch_hooks {
class SavedTensorScope;
}

namespace recomputation {

class RecomputedCall;

// Whether autograd records the ops of the calling thread.
bool is_recording();

// While it lives, ops of the calling thread do not save their tensors for
// backward; only `inputs` are kept. When backward needs the tensors, it calls
// `replay` with the inputs.
class RecomputeScope {
 public:
  using Replay = std::function<void(std::vector<at::Tensor> inputs)>;

  RecomputeScope(
      const RecomputeOptions& options,
      const std::vector<at::Tensor>& inputs,
      Replay replay);
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  const std::shared_ptr<RecomputedCall> call_;
  const std::shared_ptr<void> state_;
  const std::unique_ptr<torch_hooks::SavedTensorScope> scope_;
};

// The type with which the copy of an argument is passed: an lvalue if the
// argument was one.
template <typename Argument>
using Again = std::conditional_t<
    std::is_lvalue_reference_v<Argument>,
    std::decay_t<Argument>&,
    std::decay_t<Argument>&&>;

} // namespace recomputation

// Returns fn(arguments...) and keeps its arguments for backward instead of all
// tensors that its ops would save; backward runs `fn` again. Gradients are the
// same bit for bit, and reach everything that `fn` uses: arguments, parameters
// and captures.
//
//   y = recompute([&](const at::Tensor& x) { return block->forward(x); }, x);
//   y = recompute({.store = open_file_activation_store("/data")}, block, x);
//
// `fn` is copied, and backward() calls the copy on its own thread, so whatever
// `fn` refers to must live until then. Both calls must compute the same: `fn`
// must not write to its arguments, nor depend on state that changes in between,
// except for state that the replay restores (see RecomputeOptions and
// add_replayed_state()). Autograd releases arguments that are tensors, or
// ranges, tuples or optionals of tensors, like saved tensors; other arguments
// are copied. `fn` may return anything. With retain_graph, every backward()
// runs it again. Calls nest. Outside of grad mode, `fn` is simply called. If
// `fn` communicates, all ranks communicate again in backward, and must do so in
// the same order.
//
// backward() throws InvalidArgument if the second run saves other tensors than
// the first.
template <typename Fn, typename... Arguments>
auto recompute(
    const RecomputeOptions& options, Fn&& fn, Arguments&&... arguments) {
  if (!recomputation::is_recording()) {
    return std::invoke(fn, std::forward<Arguments>(arguments)...);
  }
  std::tuple<std::decay_t<Arguments>...> copies(arguments...);
  std::vector<at::Tensor> inputs;
  training::for_each_tensor(copies, [&](at::Tensor& tensor) {
    inputs.push_back(std::exchange(tensor, {}));
  });
  const recomputation::RecomputeScope scope(
      options,
      inputs,
      [fn = std::decay_t<Fn>(fn),
       copies = std::move(copies)](std::vector<at::Tensor> kept) mutable {
        auto all = copies;
        auto next = kept.begin();
        training::for_each_tensor(
            all, [&](at::Tensor& tensor) { tensor = std::move(*next++); });
        std::apply(
            [&](auto&... each) {
              std::invoke(
                  fn, static_cast<recomputation::Again<Arguments>>(each)...);
            },
            all);
      });
  return std::invoke(fn, std::forward<Arguments>(arguments)...);
}

template <typename Fn, typename... Arguments>
requires(!std::is_same_v<std::decay_t<Fn>, RecomputeOptions>) auto recompute(
    Fn&& fn, Arguments&&... arguments) {
  return recompute(
      RecomputeOptions{},
      std::forward<Fn>(fn),
      std::forward<Arguments>(arguments)...);
}

} // namespace argosy
