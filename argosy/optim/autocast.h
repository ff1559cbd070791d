#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <string>
#include <vector>

namespace argosy::torch_hooks {
class AutocastScope;
class OpCasts;
} // namespace argosy::torch_hooks

namespace argosy::optim {

// Ops that AutoCast does not treat as LibTorch does, by name: those of the
// white list compute in bfloat16, those of the black list in float32. Making
// the lists takes a millisecond, and copying them nothing: make them once, and
// use them in every step.
//
//   const optim::AutoCastLists lists({"layer_norm"}, {"softmax", "matmul_v2"});
//
// A name is that of an op in Paddle's lists ("elementwise_add"; docs/optim.md
// has the table) or in LibTorch ("add", "aten::add"). Names are those of the
// ops that a model calls: torch::nn::Linear calls "addmm" or "matmul", which
// "matmul_v2" stands for, as for all products. An op within a listed one, or
// within one that LibTorch's autocast casts, follows that one. Ops that write
// in place keep the type of what they write to.
class AutoCastLists {
 public:
  AutoCastLists() = default; // none
  // Throws InvalidArgument for a name that is no op, with the nearest one that
  // is, and for an op on both lists.
  AutoCastLists(
      const std::vector<std::string>& white,
      const std::vector<std::string>& black);

 private:
  friend class AutoCast;

  std::shared_ptr<const torch_hooks::OpCasts> ops_; // null: none
};

// Switches on torch's CPU autocast for this thread while it lives: matrix
// products and convolutions compute in `dtype`, ops that need precision in
// float32. Weights keep their type; they are cast once in each outermost scope.
// Run forward and the loss inside, and backward outside. Scopes nest; a
// disabled inner scope switches autocast off, and the lists of an inner scope
// replace those of the outer one.
//
// Throws InvalidArgument unless `dtype` is bfloat16: LibTorch 1.13 has no
// float16 matrix products on the CPU ("addmm_impl_cpu_" not implemented for
// 'Half').
class AutoCast {
 public:
  explicit AutoCast(
      bool enabled = true,
      c10::ScalarType dtype = c10::kBFloat16,
      const AutoCastLists& lists = {});
  ~AutoCast();
  AutoCast(const AutoCast&) = delete;
  AutoCast& operator=(const AutoCast&) = delete;

 private:
  const std::unique_ptr<torch_hooks::AutocastScope> scope_;
};

} // namespace argosy::optim
