#include "argosy/dtensor/deferred/tape.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/thread_context.h"
#include "argosy/dtensor/tensor/expected.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/torch_hooks/op_info.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

using Kind = trace::Value::Kind;

namespace {

struct CurrentTape {
  Tape* pointer = nullptr;
};

bool is_deferred_value(const c10::IValue& value) {
  if (value.isTensorList()) {
    const auto list = value.toListRef();
    return std::ranges::any_of(list, is_deferred_value);
  }
  return value.isTensor() && deferred_of(value.toTensor()) != nullptr;
}

} // namespace

Tape* current_tape() {
  return of_thread<CurrentTape>().pointer;
}

void set_current_tape(Tape* tape) {
  of_thread<CurrentTape>().pointer = tape;
}

// execute() calls this first for every op on a wrapper tensor, so the test for
// a current tape comes before that of the arguments.
bool record_deferred(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  Tape* const tape = current_tape();
  if (tape == nullptr) {
    return false;
  }
  const auto num_arguments =
      static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  if (std::none_of(
          stack.end() - num_arguments, stack.end(), is_deferred_value)) {
    return false;
  }
  tape->record(op, stack);
  return true;
}

const DeferredParts* deferred_of(const at::Tensor& tensor) {
  return torch_hooks::find_owned<DeferredParts>(tensor);
}

// A memory is what a tensor and all its views share; its root is the value that
// it began with. -1 begins a new one. Writes to any view of a memory reach all
// others, so replay() needs them too.
int Tape::add_value(Kind kind, trace::TensorMeta meta, int memory) {
  const bool is_root = memory < 0;
  const int value = program_.add_value(
      {.kind = kind,
       .memory = is_root ? static_cast<int>(roots_.size()) : memory},
      std::move(meta),
      {});
  if (is_root) {
    roots_.push_back(value);
  }
  return value;
}

// Tensors from outside of DeferredInit are constants.
int Tape::number_of(const at::Tensor& tensor) {
  if (const DeferredParts* parts = deferred_of(tensor)) {
    return parts->value;
  }
  const int value =
      add_value(Kind::kConstant, trace::metas_of({tensor})[0], -1);
  program_.held[value] = tensor;
  return value;
}

at::Tensor Tape::tensor(int value) {
  const trace::TensorMeta& meta = program_.metas[trace::at(value)];
  return torch_hooks::make_wrapper(
      DeferredParts{shared_from_this(), value},
      {.sizes = meta.sizes, .dtype = c10::scalarTypeToTypeMeta(meta.type)});
}

at::Tensor Tape::begin(const Shape& shape, at::ScalarType dtype) {
  return tensor(add_value(Kind::kInput, {.type = dtype, .sizes = shape}, -1));
}

int Tape::root(int value) const {
  const int memory = program_.graph.value(value).memory;
  return roots_[trace::at(memory)];
}

bool Tape::has_written_views(int of) const {
  for (const trace::Node& node : program_.graph.nodes) {
    for (const int value : node.writes) {
      if (value != of && root(value) == of) {
        return true;
      }
    }
  }
  return false;
}

void Tape::add_results(
    const torch_hooks::OpInfo& info,
    const c10::IValue* arguments,
    trace::Call& call,
    trace::Node& node,
    torch::jit::Stack& results) {
  // An op that writes returns its arguments, whose shapes are known; others run
  // on meta tensors to tell the shapes of what they make.
  const auto outputs = info.writes
      ? std::vector<std::vector<Expected>>(info.returns.size())
      : expected_outputs(call.op, info, arguments);
  for (std::size_t i = 0; i < info.returns.size(); ++i) {
    const auto& each = info.returns[i];
    if (each.written >= 0) {
      const auto written = static_cast<std::size_t>(each.written);
      const auto& values = call.arguments[written].values;
      results.push_back(arguments[written]);
      call.results.insert(call.results.end(), values.begin(), values.end());
      continue;
    }
    ARGOSY_CHECK(
        each.kind == torch_hooks::OpInfo::ArgKind::Tensor &&
            i < outputs.size() && outputs[i].size() == 1,
        "[dtensor.deferred] {} needs values of a tensor that was made under "
        "DeferredInit and has none yet; do it after the model is sharded",
        info.name);
    const int base = each.is_view ? call.arguments[0].values[0] : -1;
    const int made = add_value(
        Kind::kResult,
        {.type = outputs[i][0].dtype, .sizes = outputs[i][0].shape},
        base < 0 ? -1 : program_.graph.value(base).memory);
    call.results.push_back(made);
    node.makes.push_back(made);
    results.emplace_back(tensor(made));
  }
}

void Tape::record(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const auto& info = torch_hooks::op_info(op);
  const c10::IValue* arguments =
      stack.data() + (stack.size() - info.args.size());
  trace::Call call{.op = op};
  trace::Node node{.op = info.name, .is_random = info.is_random};
  const auto number = [&](const at::Tensor& each) { return number_of(each); };
  trace::add_arguments(info, arguments, number, call, node);
  draws_.emplace_back();
  if (info.is_random) {
    // Drawn now, in program order, so that a tensor gets the same random values
    // whichever tensors are replayed, and in which order.
    draws_.back() = random_state()->draw();
  }
  torch::jit::Stack results;
  add_results(info, arguments, call, node, results);
  program_.add_node(std::move(node), std::move(call));
  torch::jit::drop(stack, info.args.size());
  stack.insert(stack.end(), results.begin(), results.end());
}

at::Tensor Tape::replay(
    int value, RandomState& random, const Make& make) const {
  const std::vector<bool> needed = trace::needed_nodes(program_.graph, value);
  trace::Run run(program_);
  // Makes memory only for inputs that a needed node uses, when it first does: a
  // replay holds what one tensor depends on, not the whole model.
  const auto begin = [&](int each) {
    if (program_.graph.value(each).kind == Kind::kInput &&
        !run.get(each).defined()) {
      run.set(each, make(each, program_.metas[trace::at(each)]));
    }
  };
  begin(value);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) {
      continue;
    }
    for (const int used : program_.graph.nodes[i].uses) {
      begin(used);
    }
    const RandomState::Replay drawn(random, draws_[i]);
    run.run(static_cast<int>(i));
  }
  return run.get(value);
}

} // namespace argosy::dtensor
