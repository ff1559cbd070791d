#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace argosy::torch_hooks {

// Ops for which autocast does not follow LibTorch's lists. They take effect
// where autocast does: for threads that have made them theirs and have autocast
// on, and for the ops that a model calls, not for the kernels within.
class OpCasts {
 public:
  enum class To : std::uint8_t {
    kLower, // the type of autocast
    kFloat,
  };
  using Names = std::map<std::string, To>; // "add": all aten::add.*

  // Ops that write to an argument are left out: the argument keeps its type.
  // Throws InvalidArgument when LibTorch has no op of a name, when all of them
  // write to an argument, or when the hook `intercept` is switched off.
  explicit OpCasts(Names names);

  std::optional<To> of(const c10::OperatorHandle& op) const;
  std::optional<To> of(const std::string& name) const;

  // Equal for equal names.
  std::int64_t fingerprint() const { return fingerprint_; }

 private:
  const Names names_;
  std::int64_t fingerprint_;
  // The dispatcher keeps schemas where they are.
  std::unordered_map<const c10::FunctionSchema*, To> ops_;
};

// The names of all ops of LibTorch, without "aten::" and overloads; sorted.
std::vector<std::string> op_names();

// Of the calling thread; null: none.
const std::shared_ptr<const OpCasts>& current_op_casts();

// Makes them the calling thread's. Ops of the thread are caught from now on
// unless `casts` is null; AutocastScope sets that back.
void set_op_casts(std::shared_ptr<const OpCasts> casts);

} // namespace argosy::torch_hooks
