#include "argosy/dtensor/dispatch/execute.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include <iterator>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred/tape.h"
#include "argosy/dtensor/dispatch/become.h"
#include "argosy/dtensor/dispatch/decide.h"
#include "argosy/dtensor/dispatch/frame.h"
#include "argosy/dtensor/dispatch/plain_inputs.h"
#include "argosy/dtensor/ops/rule.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/dtensor/tensor/interpreter.h"
#include "argosy/dtensor/tensor/move_memo.h"

namespace argosy::dtensor {

namespace {

using ArgKind = OpInfo::ArgKind;

// Most ops have no more arguments than this, and need no memory for them.
using Originals = c10::SmallVector<c10::IValue, 8>;

at::Tensor move(
    const Frame& frame, const Frame::Input& input, const Placements& to) {
  MoveMemo* memo = MoveMemo::current();
  at::Tensor moved = memo ? memo->find(*input.tensor, to) : at::Tensor();
  if (!moved.defined() && input.parts && frame.mesh().gathers_ahead()) {
    moved = frame.mesh().find_gathered(*input.parts, to);
  }
  if (!moved.defined()) {
    moved = frame.mesh().reshard(
        input.parts ? input.parts->local : *input.tensor,
        input.tensor->sizes(),
        frame.placements(input),
        to);
    if (memo) {
      memo->insert(*input.tensor, to, moved);
    }
  }
  return moved;
}

// The part of an input that the op runs on, moved where the decision wants it.
at::Tensor local_input(
    const Frame& frame, std::size_t index, const Decision& decision) {
  const Frame::Input& input = frame.inputs()[index];
  const at::Tensor& own = input.parts ? input.parts->local : *input.tensor;
  const bool is_written = frame.info().args[input.arg].is_written;
  at::Tensor there = own;
  if (decision.inputs[index].moves) {
    there = move(frame, input, decision.inputs[index].placements);
    // A local cut is a view of the original part. write_back() replaces the
    // original, so the op must not write through the view before.
    if (is_written && there.is_alias_of(own)) {
      there = there.clone();
    }
  }
  // A part of a contiguous tensor may have gaps, which kernels of backward ops
  // do not expect where the whole has none.
  if (frame.info().is_backward && !is_written) {
    there = there.contiguous();
  }
  return there;
}

// The op resizes this to what it computes; write_back() then checks the shape
// and copies. So an `out` may be placed in any way.
at::Tensor empty_like_out(const c10::IValue& out) {
  const Parts& parts = require_parts(out.toTensor(), "out");
  return at::empty({0}, parts.local.options());
}

// The arguments of this rank: local tensors, and what the decision replaces.
class LocalArguments {
 public:
  LocalArguments(const Frame& frame, const Decision& decision)
      : frame_(frame), decision_(decision) {}

  // Visits tensors in the order in which Frame collects its inputs, as next()
  // counts on that.
  void write(c10::IValue* arguments) {
    for (std::size_t i = 0; i < frame_.info().args.size(); ++i) {
      arguments[i] = local(frame_.info().args[i], frame_.arguments()[i]);
    }
    for (const auto& [index, value] : decision_.arguments) {
      arguments[index] = value;
    }
  }

 private:
  c10::IValue local(const OpInfo::Arg& arg, const c10::IValue& original) {
    if (arg.is_out) {
      return empty_like_out(original);
    }
    if (arg.kind == ArgKind::Tensor && is_tensor(original)) {
      return next();
    }
    if (arg.kind == ArgKind::Tensors && !original.isNone()) {
      return list(original);
    }
    return original;
  }

  static bool is_tensor(const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined();
  }

  at::Tensor next() { return local_input(frame_, next_++, decision_); }

  c10::IValue list(const c10::IValue& value) {
    if (value.isTensorList()) {
      c10::List<at::Tensor> locals;
      for (const c10::IValue& each : value.toListRef()) {
        locals.push_back(is_tensor(each) ? next() : at::Tensor());
      }
      return locals;
    }
    c10::List<c10::optional<at::Tensor>> locals;
    for (const c10::IValue& each : value.toListRef()) {
      locals.push_back(
          is_tensor(each) ? c10::make_optional(next()) : c10::nullopt);
    }
    return locals;
  }

  const Frame& frame_;
  const Decision& decision_;
  std::size_t next_ = 0;
};

// Each rank computes the parts of the others from the shapes that the rule
// expects, so a wrong shape must fail here rather than in a later collective.
void check_local(
    const RuledOp& info, const Expected& expected, const at::Tensor& local) {
  ARGOSY_ASSERT(
      local.sizes() == at::IntArrayRef(expected.local),
      "the rule of {} expects a part of shape {}, the op gave {}",
      info.name,
      at::IntArrayRef(expected.local),
      local.sizes());
}

class Results {
 public:
  Results(const Frame& frame, const Decision& decision)
      : frame_(frame), decision_(decision) {}

  c10::IValue wrap(c10::IValue value, std::size_t index) const {
    if (value.isTensor()) {
      return wrap(std::move(value).toTensor(), index, 0);
    }
    if (!value.isTensorList()) {
      return value;
    }
    c10::List<at::Tensor> list;
    std::size_t element = 0;
    for (const c10::IValue& each : value.toListRef()) {
      list.push_back(wrap(each.toTensor(), index, element++));
    }
    return list;
  }

 private:
  at::Tensor wrap(
      at::Tensor result, std::size_t index, std::size_t element) const {
    if (!result.defined()) {
      return result;
    }
    const Decision::Output& output = decision_.outputs[index];
    const RuledOp& info = frame_.info();
    check_is_strided(result, info.name);
    Parts parts{
        .local = without_lazy_bits(std::move(result)),
        .mesh = frame_.shared_mesh(),
        .placements = output.placements,
        .pinned = pinned_axes(output.placements)};
    const at::Tensor& local = parts.local;
    parts.is_copied_view = info.returns[index].is_view && is_cut_off(local);
    // Without a rule all is replicated, so the local shape is the global one.
    // It is more reliable than what LibTorch's meta kernels say.
    if (info.rule == nullptr || element >= output.tensors.size()) {
      return make_dtensor(std::move(parts), local.sizes(), dense_ones(local));
    }
    const Expected& expected = output.tensors[element];
    check_local(info, expected, local);
    // Autograd finds what is written to a view in its base by these.
    return make_dtensor(
        std::move(parts), expected.shape, expected.strides, expected.offset);
  }

  // Whether the move of the viewed input, or a rule's copy, has cut a view off
  // from its base, which is the first input.
  bool is_cut_off(const at::Tensor& view) const {
    const Parts* base = frame_.inputs().front().parts;
    return decision_.inputs.front().moves || base == nullptr ||
        !view.is_alias_of(base->local);
  }

  // The strides of what all ranks have alike.
  static at::IntArrayRef dense_ones(const at::Tensor& tensor) {
    return tensor.is_non_overlapping_and_dense() ? tensor.strides()
                                                 : at::IntArrayRef();
  }

  // What is made of a pinned tensor alone (transposed, cast) is pinned too,
  // where it is still a shard.
  std::uint8_t pinned_axes(const Placements& placements) const {
    if (frame_.inputs().size() != 1 || !frame_.inputs()[0].parts) {
      return 0;
    }
    std::uint8_t axes = frame_.inputs()[0].parts->pinned;
    for (std::size_t i = 0; axes != 0 && i < placements.size(); ++i) {
      if (!placements[i].is_shard()) {
        axes &= static_cast<std::uint8_t>(~(1u << i));
      }
    }
    return axes;
  }

  const Frame& frame_;
  const Decision& decision_;
};

// Copies a result that was computed in another placement, or into a new tensor,
// to the part of the tensor that the caller passed. May communicate, so all
// ranks of the mesh come here alike.
void write_back(
    const Frame& frame,
    const at::Tensor& original,
    const at::Tensor& result,
    const Placements& placements) {
  Parts& parts = require_parts(original, "out");
  if (result.is_same(parts.local)) {
    return;
  }
  const at::Tensor part = frame.mesh().reshard(
      result, original.sizes(), placements, parts.placements);
  ARGOSY_CHECK(
      part.sizes() == parts.local.sizes(),
      "[dtensor.{}] the result does not have the shape {} of the tensor that "
      "it is written to",
      frame.info().name,
      original.sizes());
  parts.local.copy_(part);
}

// Replaces the local results on the stack by DTensors. For a result that is one
// of the arguments, the caller's tensor itself is returned, as the schema
// promises.
void finish(
    const Frame& frame,
    const Decision& decision,
    const Originals& originals,
    torch::jit::Stack& stack) {
  const RuledOp& info = frame.info();
  const Results results(frame, decision);
  const std::size_t begin = stack.size() - info.returns.size();
  for (std::size_t i = 0; i < info.returns.size(); ++i) {
    c10::IValue& value = stack[begin + i];
    const int written = info.returns[i].written;
    if (written < 0) {
      value = results.wrap(std::move(value), i);
      continue;
    }
    const c10::IValue& original = originals[static_cast<std::size_t>(written)];
    if (original.isTensor()) {
      write_back(
          frame,
          original.toTensor(),
          value.toTensor(),
          decision.outputs[i].placements);
    }
    value = original;
  }
}

// Ranks outside of the mesh compute nothing, but run the same program: later
// ops and reshard() to a mesh that has them need shapes and placements.
void finish_outside(
    const Frame& frame, const Decision& decision, torch::jit::Stack& stack) {
  const RuledOp& info = frame.info();
  if (info.is_random) {
    frame.mesh().random().draw(); // as those within do
  }
  torch::jit::Stack results;
  for (std::size_t i = 0; i < info.returns.size(); ++i) {
    if (info.returns[i].written >= 0) {
      results.push_back(frame.arguments()[info.returns[i].written]);
      continue;
    }
    const auto& tensors = decision.outputs[i].tensors;
    ARGOSY_CHECK(
        info.returns[i].kind == ArgKind::Tensor && tensors.size() == 1,
        "[dtensor.{}] this rank is not in {} and cannot know the result",
        info.name,
        frame.mesh().mesh());
    results.emplace_back(make_dtensor(
        {.local = at::empty({0}, at::TensorOptions(tensors[0].dtype)),
         .mesh = frame.shared_mesh(),
         .placements = decision.outputs[i].placements},
        tensors[0].shape));
  }
  torch::jit::drop(stack, info.args.size());
  stack.insert(stack.end(), results.begin(), results.end());
}

} // namespace

void execute(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // Collectives below may wait for ranks that are threads of this process and
  // need the interpreter's lock.
  const WithoutInterpreter unlocked;
  if (record_deferred(op, *stack)) {
    return;
  }
  const RuledOp& info = ruled_op(op);
  if (info.changes_shape) {
    change_shape(info, *stack);
    return;
  }
  const OpScope scope(info.name);
  // The frame refers to them, while the stack gets this rank's arguments.
  const Originals originals(
      std::make_move_iterator(
          stack->end() - static_cast<std::ptrdiff_t>(info.args.size())),
      std::make_move_iterator(stack->end()));
  // Before the frame, which rejects plain tensors that are written to.
  if (info.writes) {
    adopt_new_tensors(info, originals);
  }
  const Frame frame(info, originals.data());
  const auto decision = decide(op, frame);
  if (info.rule == nullptr) {
    frame.mesh().gathered().note(info.name);
  }
  if (!frame.mesh().is_member()) {
    finish_outside(frame, *decision, *stack);
    return;
  }
  if (decision->compared != nullptr) [[unlikely]] {
    compare_plain_inputs(frame, *decision);
  }
  LocalArguments(frame, *decision)
      .write(stack->data() + (stack->size() - info.args.size()));
  if (decision->run == nullptr) {
    op.callBoxed(*stack);
  } else {
    LocalCall call(op, *stack, originals.data(), info, *decision, frame.mesh());
    decision->run(call);
  }
  finish(frame, *decision, originals, *stack);
}

} // namespace argosy::dtensor
