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

class Frame;

// Whether autograd records what the calling thread does.
bool is_recording();

// While it lives, ops of the calling thread save nothing but `inputs`, and
// `replay` is called with those when backward needs the rest.
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
  const std::shared_ptr<Frame> frame_;
  const std::shared_ptr<void> state_;
  const std::unique_ptr<torch_hooks::SavedTensorScope> scope_;
};

// How the copy of an argument is passed: an lvalue if that was one.
template <typename Argument>
using Again = std::conditional_t<
    std::is_lvalue_reference_v<Argument>,
    std::decay_t<Argument>&,
    std::decay_t<Argument>&&>;

} // namespace recomputation

// Returns fn(arguments...), and keeps for backward its arguments instead of all
// that its ops save: backward runs it again. Gradients are the same bit for
// bit, and go to all that `fn` uses: arguments, parameters, what it captures.
//
//   y = recompute([&](const at::Tensor& x) { return block->forward(x); }, x);
//   y = recompute({.store = open_file_activation_store("/data")}, block, x);
//
// `fn` is copied and called again by backward(), on the thread that runs it, so
// what it refers to must live until then. It must do the same then: not depend
// on what changes in between (RecomputeOptions says what is set back), nor
// write to its arguments. Arguments that are tensors, or ranges, tuples or
// optionals of them, are released by autograd as saved tensors are; others are
// copied. Any result. With retain_graph, every backward() runs it again.
// Nests. Without grad mode it is just called. If `fn` communicates, all ranks
// do so again, in the order in which backward comes by.
//
// Throws InvalidArgument in backward when the replay saves other tensors than
// the first run did.
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
