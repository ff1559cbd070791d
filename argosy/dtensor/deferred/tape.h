#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <vector>

#include "argosy/dtensor/layout.h"
#include "argosy/dtensor/random_state.h"

namespace argosy::torch_hooks {
struct OpInfo;
}

namespace argosy::dtensor {

using torch_hooks::OpInfo;

// What happened to tensors that have no memory yet, in order, and how to do it
// again for those that somebody wants. Each has a slot.
class Tape : public std::enable_shared_from_this<Tape> {
 public:
  // Makes a slot's tensor when nothing has happened to it yet.
  using Make =
      std::function<at::Tensor(int slot, const Shape& shape, at::ScalarType)>;

  // A tensor that begins its life here.
  at::Tensor begin(const Shape& shape, at::ScalarType dtype);

  // Writes an op down that has tensors of this tape among its arguments, and
  // replaces those on the stack by what it returns. Throws InvalidArgument for
  // an op that needs their values.
  void record(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  // Does all again that the tensor of a slot depends on.
  at::Tensor replay(int slot, RandomState& random, const Make& make) const;

  // The slot in which a tensor's life began: its own, or that of the tensor
  // whose view it is.
  int root(int slot) const;

  // Whether something was written to a part of that tensor.
  bool has_written_views(int root) const;

 private:
  struct Slot {
    Shape shape;
    at::ScalarType dtype = at::ScalarType::Undefined;
    int base = -1; // the slot that it is a view of
  };
  // An argument: a value, or slots (one, or those of a list; -1: the value).
  struct Argument {
    c10::IValue value;
    std::vector<int> slots;
  };
  struct Step {
    c10::OperatorHandle op;
    std::vector<Argument> arguments;
    std::vector<int> outputs; // slots; -1: not on the tape
    std::vector<int> written; // slots of arguments
    std::optional<RandomState::Draw> draw;
  };

  at::Tensor tensor(int slot);
  Argument argument_of(const c10::IValue& value) const;
  void add_outputs(Step& step, const OpInfo& info, torch::jit::Stack& stack);
  int add_slot(const Shape& shape, at::ScalarType dtype, int base);
  std::vector<bool> needed_steps(int slot) const;
  bool touches(const Step& step, const std::vector<bool>& roots) const;

  std::vector<Slot> slots_;
  std::vector<Step> steps_;
};

// The tape and slot of a deferred tensor; none of any other.
struct DeferredParts {
  std::shared_ptr<Tape> tape;
  int slot = -1;
};
const DeferredParts* deferred_of(const at::Tensor& tensor);

// Under DeferredInit: writes an op on deferred tensors down, in place of
// running it. False when it is none.
bool record_deferred(const c10::OperatorHandle& op, torch::jit::Stack& stack);

} // namespace argosy::dtensor
