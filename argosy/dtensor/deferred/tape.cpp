#include "argosy/dtensor/deferred/tape.h"

#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/dispatch/expected.h"
#include "argosy/dtensor/mesh_state.h"
#include "argosy/torch_hooks/op_info.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

namespace {

int slot_of(const c10::IValue& value) {
  if (!value.isTensor()) {
    return -1;
  }
  const DeferredParts* parts = deferred_of(value.toTensor());
  return parts == nullptr ? -1 : parts->slot;
}

} // namespace

const DeferredParts* deferred_of(const at::Tensor& tensor) {
  return torch_hooks::find_owned<DeferredParts>(tensor);
}

int Tape::add_slot(const Shape& shape, at::ScalarType dtype, int base) {
  slots_.push_back({shape, dtype, base});
  return static_cast<int>(slots_.size()) - 1;
}

at::Tensor Tape::tensor(int slot) {
  const Slot& known = slots_[static_cast<std::size_t>(slot)];
  return torch_hooks::make_wrapper(
      DeferredParts{shared_from_this(), slot},
      {.sizes = known.shape, .dtype = c10::scalarTypeToTypeMeta(known.dtype)});
}

at::Tensor Tape::begin(const Shape& shape, at::ScalarType dtype) {
  return tensor(add_slot(shape, dtype, -1));
}

int Tape::root(int slot) const {
  while (slots_[static_cast<std::size_t>(slot)].base >= 0) {
    slot = slots_[static_cast<std::size_t>(slot)].base;
  }
  return slot;
}

bool Tape::has_written_views(int of) const {
  for (const Step& step : steps_) {
    for (const int slot : step.written) {
      if (slot >= 0 && slot != of && root(slot) == of) {
        return true;
      }
    }
  }
  return false;
}

Tape::Argument Tape::argument_of(const c10::IValue& value) const {
  if (value.isTensor()) {
    const int slot = slot_of(value);
    return slot < 0 ? Argument{value, {}} : Argument{{}, {slot}};
  }
  Argument argument{value, {}};
  if (value.isTensorList()) {
    for (const c10::IValue& each : value.toListRef()) {
      argument.slots.push_back(slot_of(each));
      ARGOSY_CHECK(
          argument.slots.back() >= 0,
          "[dtensor.deferred] a list of tensors of which some were made "
          "outside of DeferredInit");
    }
    argument.value = {};
  }
  return argument;
}

void Tape::add_outputs(
    Step& step, const OpInfo& info, torch::jit::Stack& stack) {
  const std::size_t first = stack.size() - info.args.size();
  const auto outputs = info.writes
      ? std::vector<std::vector<Expected>>(info.returns.size())
      : expected_outputs(step.op, info, stack.data() + first);
  torch::jit::Stack results;
  for (std::size_t i = 0; i < info.returns.size(); ++i) {
    const OpInfo::Return& each = info.returns[i];
    if (each.written >= 0) {
      results.push_back(stack[first + static_cast<std::size_t>(each.written)]);
      step.outputs.push_back(slot_of(results.back()));
      step.written.push_back(step.outputs.back());
      continue;
    }
    ARGOSY_CHECK(
        each.kind == OpInfo::ArgKind::Tensor && i < outputs.size() &&
            outputs[i].size() == 1,
        "[dtensor.deferred] ",
        info.name,
        " needs values of a tensor that was made under DeferredInit and has "
        "none yet; do it after the model is sharded");
    const int base = each.is_view ? slot_of(stack[first]) : -1;
    step.outputs.push_back(
        add_slot(outputs[i][0].shape, outputs[i][0].dtype, base));
    results.emplace_back(tensor(step.outputs.back()));
  }
  torch::jit::drop(stack, info.args.size());
  stack.insert(stack.end(), results.begin(), results.end());
}

void Tape::record(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const OpInfo& info = torch_hooks::op_info(op);
  Step step{.op = op};
  for (auto each = stack.end() - static_cast<std::ptrdiff_t>(info.args.size());
       each != stack.end();
       ++each) {
    step.arguments.push_back(argument_of(*each));
  }
  if (info.is_random) {
    step.draw = random_state()->draw();
  }
  add_outputs(step, info, stack);
  steps_.push_back(std::move(step));
}

bool Tape::touches(const Step& step, const std::vector<bool>& roots) const {
  for (const int slot : step.outputs) {
    if (slot >= 0 && roots[static_cast<std::size_t>(root(slot))]) {
      return true;
    }
  }
  return false;
}

// From the last to the first: what makes or changes something that is needed,
// whose arguments are then needed too. A step that only reads is left out.
std::vector<bool> Tape::needed_steps(int slot) const {
  std::vector<bool> roots(slots_.size(), false);
  std::vector<bool> needed(steps_.size(), false);
  roots[static_cast<std::size_t>(root(slot))] = true;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    if (!touches(steps_[i], roots)) {
      continue;
    }
    needed[i] = true;
    for (const Argument& argument : steps_[i].arguments) {
      for (const int each : argument.slots) {
        roots[static_cast<std::size_t>(root(each))] = true;
      }
    }
  }
  return needed;
}

at::Tensor Tape::replay(int slot, RandomState& random, const Make& make) const {
  const std::vector<bool> needed = needed_steps(slot);
  std::vector<at::Tensor> values(slots_.size());
  const auto value = [&](int at) -> at::Tensor& {
    const Slot& known = slots_[static_cast<std::size_t>(at)];
    at::Tensor& kept = values[static_cast<std::size_t>(at)];
    if (!kept.defined()) { // not made by any step: where its life began
      kept = make(at, known.shape, known.dtype);
    }
    return kept;
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!needed[i]) {
      continue;
    }
    const Step& step = steps_[i];
    torch::jit::Stack stack;
    for (const Argument& argument : step.arguments) {
      if (argument.slots.empty()) {
        stack.push_back(argument.value);
      } else if (argument.value.isNone() && argument.slots.size() == 1) {
        stack.emplace_back(value(argument.slots[0]));
      } else {
        c10::List<at::Tensor> list;
        for (const int each : argument.slots) {
          list.push_back(value(each));
        }
        stack.emplace_back(list);
      }
    }
    const RandomState::Replay drawn(random, step.draw);
    step.op.callBoxed(stack);
    for (std::size_t out = 0; out < step.outputs.size(); ++out) {
      if (step.outputs[out] >= 0) {
        values[static_cast<std::size_t>(step.outputs[out])] =
            stack[out].toTensor();
      }
    }
  }
  return value(slot);
}

} // namespace argosy::dtensor
