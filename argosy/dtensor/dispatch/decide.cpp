#include "argosy/dtensor/dispatch/decide.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/thread_context.h"
#include "argosy/dtensor/dispatch/frame.h"
#include "argosy/dtensor/dispatch/plain_inputs.h"
#include "argosy/dtensor/ops/choose.h"
#include "argosy/dtensor/ops/rule.h"
#include "argosy/dtensor/tensor/expected.h"

namespace argosy::dtensor {

namespace {

using Outputs = std::vector<std::vector<Expected>>;

void say_once(const std::string& op) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(op).second) {
    log::warn(
        "[dtensor] {} has no sharding rule: its inputs are gathered on every "
        "rank",
        op);
  }
}

void check_can_run(const RuledOp& info) {
  ARGOSY_CHECK(
      !info.is_random || info.rule != nullptr,
      "[dtensor.{}] is random and has no sharding rule: ranks would draw "
      "different values",
      info.name);
}

std::vector<Operand> operands_of(const Frame& frame) {
  std::vector<Operand> operands;
  for (const Frame::Input& input : frame.inputs()) {
    Operand operand{
        .shape = input.tensor->sizes().vec(),
        .item_bytes = static_cast<std::int64_t>(input.tensor->itemsize()),
        .placements = frame.placements(input),
        .pinned =
            input.parts == nullptr ? std::uint8_t{0} : input.parts->pinned,
        .is_written = frame.info().args[input.arg].is_written};
    const auto& returns = frame.info().returns;
    for (std::size_t i = 0; i < returns.size(); ++i) {
      if (returns[i].written == static_cast<int>(input.arg) &&
          frame.info().args[input.arg].kind == OpInfo::ArgKind::Tensor) {
        operand.output = static_cast<int>(i);
      }
    }
    operands.push_back(std::move(operand));
  }
  return operands;
}

// For parts of a rule that ask for global shapes, outside of any axis.
AxisView whole_view(const std::vector<Operand>& operands) {
  AxisView view;
  for (const Operand& operand : operands) {
    view.shapes.push_back(operand.shape);
    view.current.emplace_back();
    view.uneven.push_back(0);
  }
  return view;
}

// A rule knows better: meta kernels, which Python has others of, are not always
// what the op does.
void correct(Outputs& outputs, std::vector<Shape> shapes) {
  outputs.resize(std::max(outputs.size(), shapes.size()));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (outputs[i].empty()) {
      outputs[i].emplace_back();
    }
    if (outputs[i].size() == 1 && outputs[i][0].shape != shapes[i]) {
      outputs[i][0] = {
          .shape = std::move(shapes[i]), .dtype = outputs[i][0].dtype};
    }
  }
}

Outputs expected(
    const c10::OperatorHandle& op, const Frame& frame, const OpCall& call) {
  const Rule* rule = frame.info().rule;
  Outputs outputs = expected_outputs(op, frame.info(), frame.arguments());
  if (rule != nullptr && rule->shapes != nullptr) {
    correct(outputs, rule->shapes(call));
  }
  return outputs;
}

// Lists are told by their first: rules treat all alike.
std::vector<Shape> first_shapes(const Outputs& outputs) {
  std::vector<Shape> shapes;
  for (const auto& tensors : outputs) {
    shapes.push_back(tensors.empty() ? Shape() : tensors.front().shape);
  }
  return shapes;
}

// Whether a tensor of these dims can be so placed; outputs of unknown shape
// cannot be sharded.
bool fits(Placement placement, const Shape* shape) {
  return !placement.is_shard() ||
      (shape != nullptr && placement.dim() < static_cast<int>(shape->size()));
}

bool fits(const Strategy& strategy, const AxisView& view) {
  for (std::size_t i = 0; i < strategy.inputs.size(); ++i) {
    if (!fits(strategy.inputs[i], &view.shapes[i])) {
      return false;
    }
  }
  for (std::size_t i = 0; i < strategy.outputs.size(); ++i) {
    const Shape* shape = i < view.outs.size() ? &view.outs[i] : nullptr;
    if (!fits(strategy.outputs[i], shape)) {
      return false;
    }
  }
  return true;
}

Choice choose_for(
    const Frame& frame,
    const std::vector<Operand>& operands,
    const std::vector<Shape>& outs) {
  const RuledOp& info = frame.info();
  return choose(
      frame.mesh().mesh().shape(),
      operands,
      outs,
      info.returns.size(),
      [&](const AxisView& view) {
        std::vector<Strategy> offers;
        if (info.rule != nullptr && info.rule->strategies != nullptr) {
          offers = info.rule->strategies(OpCall(info, frame.arguments(), view));
        }
        std::erase_if(
            offers, [&](const Strategy& each) { return !fits(each, view); });
        return offers;
      });
}

void add_local_arguments(
    Decision& decision, const Frame& frame, const OpCall& call) {
  std::vector<Shape> local_outs;
  for (const Decision::Output& output : decision.outputs) {
    local_outs.push_back(
        output.tensors.empty() ? Shape() : output.tensors.front().local);
  }
  for (auto& [name, value] : frame.info().rule->localize(call, local_outs)) {
    for (std::size_t i = 0; i < frame.info().args.size(); ++i) {
      if (frame.info().args[i].name == name) {
        decision.arguments.emplace_back(i, std::move(value));
      }
    }
  }
}

// Runs once for each key: the shapes of the outputs first, as rules ask for
// them, then a strategy for each mesh axis, then what this rank's part of the
// outputs and arguments is. It communicates nothing.
Decision make_decision(const c10::OperatorHandle& op, const Frame& frame) {
  const RuledOp& info = frame.info();
  check_can_run(info);
  if (info.rule == nullptr) {
    say_once(info.name);
  }
  const std::vector<Operand> operands = operands_of(frame);
  const AxisView view = whole_view(operands);
  const OpCall call(info, frame.arguments(), view);
  Outputs outputs = expected(op, frame, call);
  const Choice choice = choose_for(frame, operands, first_shapes(outputs));

  Decision decision;
  if (frame.mesh().mesh().size() > 1 && has_plain_inputs(frame)) {
    decision.compared = std::make_shared<std::atomic<int>>(0);
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    decision.inputs.push_back(
        {choice.inputs[i], choice.inputs[i] != operands[i].placements});
  }
  for (std::size_t i = 0; i < info.returns.size(); ++i) {
    decision.outputs.push_back({choice.outputs[i], {}});
    if (i >= outputs.size()) {
      continue;
    }
    for (Expected& each : outputs[i]) {
      each.local = frame.mesh().local_shape(each.shape, choice.outputs[i]);
    }
    decision.outputs[i].tensors = std::move(outputs[i]);
  }
  if (info.rule != nullptr) {
    decision.run = info.rule->run;
    // Of unknown results all is whole, and so are the arguments.
    if (info.rule->localize != nullptr && !outputs.empty()) {
      add_local_arguments(decision, frame, call);
    }
  }
  return decision;
}

struct RecentCalls {
  // By the last bits of the hash; null: none yet, or taken.
  std::array<std::shared_ptr<const KnownCall>, 1024> slots;
};

// The lock of the cache is not held while a decision is made: two threads may
// make the same one, and both are right.
std::shared_ptr<const KnownCall> find_or_make(
    const c10::OperatorHandle& op, const Frame& frame, std::uint64_t hash) {
  DecisionCache& cache = frame.mesh().decisions();
  auto known = cache.find(frame.key(), hash);
  if (known == nullptr) {
    known = std::make_shared<const KnownCall>(
        KnownCall{frame.key(), make_decision(op, frame)});
    cache.insert(known);
  }
  return known;
}

} // namespace

TakenDecision decide(const c10::OperatorHandle& op, const Frame& frame) {
  const std::uint64_t hash = frame.key().hash();
  auto& slots = of_thread<RecentCalls>().slots;
  auto& slot = slots[hash % slots.size()];
  auto call = std::move(slot);
  if (call == nullptr || !(call->key == frame.key())) {
    call = find_or_make(op, frame, hash);
  }
  return {slot, std::move(call)};
}

} // namespace argosy::dtensor
