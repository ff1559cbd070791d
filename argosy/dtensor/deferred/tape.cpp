#include "argosy/dtensor/deferred/tape.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/thread_context.h"
#include "argosy/dtensor/tensor/expected.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/torch_hooks/generator_state.h"
#include "argosy/torch_hooks/op_info.h"
#include "argosy/torch_hooks/thread_generator.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

using Kind = trace::Value::Kind;

namespace {

struct CurrentTape {
  Tape* pointer = nullptr;
  std::weak_ptr<Tape> last_to_draw;
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
  torch::jit::Stack results;
  add_results(info, arguments, call, node, results);
  // After what may throw: draws_ has one entry for each node.
  draws_.emplace_back();
  torch_draws_.emplace_back();
  if (info.is_random) {
    // Drawn now, in program order, so that a tensor gets the same random values
    // whichever tensors are replayed, and in which order.
    draws_.back() = random_state()->draw();
    note_draw(info, call);
  }
  program_.add_node(std::move(node), std::move(call));
  torch::jit::drop(stack, info.args.size());
  stack.insert(stack.end(), results.begin(), results.end());
}

// Runs the nodes that a value depends on, each by around(node, run).
template <typename Around>
at::Tensor Tape::run_needed(
    int value, const Make& make, const Around& around) const {
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
    around(i, [&] { run.run(static_cast<int>(i)); });
  }
  return run.get(value);
}

at::Tensor Tape::replay(
    int value, RandomState& random, const Make& make) const {
  return run_needed(value, make, [&](std::size_t i, const auto& run) {
    ARGOSY_CHECK(
        !torch_draws_[i] || !torch_draws_[i]->is_explicit,
        "[dtensor.random] a generator is given to {}; DTensors draw from the "
        "numbers of dtensor_manual_seed()",
        program_.graph.nodes[i].op);
    const RandomState::Replay drawn(random, draws_[i]);
    run();
  });
}

// Takes the generator out of the call: a replay puts its own in its place.
void Tape::note_draw(const torch_hooks::OpInfo& info, trace::Call& call) {
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    if (info.args[i].name != "generator") {
      continue;
    }
    c10::IValue& given = call.arguments[i].plain;
    const bool is_explicit = given.isGenerator();
    const at::Generator* scoped = torch_hooks::GeneratorScope::current();
    const at::Generator generator = is_explicit ? given.toGenerator()
        : scoped != nullptr                     ? *scoped
                            : at::detail::getDefaultCPUGenerator();
    given = c10::IValue();
    torch_draws_.back() = {source_of(generator), is_explicit, {}};
  }
}

int Tape::source_of(const at::Generator& generator) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].generator == generator) {
      return static_cast<int>(i);
    }
  }
  Source made{generator, torch_hooks::state_of(generator), {}, nullptr};
  made.own = at::make_generator<at::CPUGeneratorImpl>();
  torch_hooks::set_state(made.own, made.start);
  // What another tape has recorded has not moved the generator yet.
  auto& last = of_thread<CurrentTape>().last_to_draw;
  if (const auto before = last.lock(); before && before.get() != this) {
    for (const Source& each : before->sources_) {
      if (each.generator == generator && each.start.equal(made.start)) {
        made.after = before;
      }
    }
  }
  last = weak_from_this();
  sources_.push_back(std::move(made));
  return static_cast<int>(sources_.size()) - 1;
}

// Draws the numbers of a node into memory that is thrown away.
void Tape::draw_in_vain(std::size_t node, at::Generator& own) {
  const trace::Node& of = program_.graph.nodes[node];
  trace::Run run(program_);
  for (const int value : of.uses) {
    ARGOSY_CHECK(
        std::ranges::find(of.writes, value) != of.writes.end(),
        "[dtensor.deferred] {} draws random numbers by the values of a tensor "
        "that was made under DeferredInit and has none yet; do it after the "
        "model is sharded",
        of.op);
    const trace::TensorMeta& meta = program_.metas[trace::at(value)];
    run.set(value, at::empty(meta.sizes, at::TensorOptions(meta.type)));
  }
  const torch_hooks::GeneratorScope scope(own);
  run.run(static_cast<int>(node));
}

void Tape::find_states() {
  const bool is_first = num_found_ == 0;
  for (Source& source : sources_) {
    if (is_first && source.after) {
      source.after->find_states();
      const int same = source.after->source_of(source.generator);
      source.start =
          torch_hooks::state_of(source.after->sources_[trace::at(same)].own);
      torch_hooks::set_state(source.own, source.start);
    }
  }
  for (; num_found_ < torch_draws_.size(); ++num_found_) {
    if (auto& draw = torch_draws_[num_found_]) {
      at::Generator& own = sources_[trace::at(draw->source)].own;
      draw->state = torch_hooks::state_of(own);
      draw_in_vain(num_found_, own);
    }
  }
  for (const Source& source : sources_) {
    // As without DeferredInit, unless the program has gone on from there.
    if (is_first &&
        torch_hooks::state_of(source.generator).equal(source.start)) {
      torch_hooks::set_state(
          source.generator, torch_hooks::state_of(source.own));
    }
  }
}

at::Tensor Tape::replay_plain(int value) {
  find_states();
  const Make make = [](int, const trace::TensorMeta& meta) {
    return at::empty(meta.sizes, at::TensorOptions(meta.type));
  };
  return run_needed(value, make, [&](std::size_t i, const auto& run) {
    if (!torch_draws_[i]) {
      run();
      return;
    }
    at::Generator own = at::make_generator<at::CPUGeneratorImpl>();
    torch_hooks::set_state(own, torch_draws_[i]->state);
    const torch_hooks::GeneratorScope scope(own);
    run();
  });
}

} // namespace argosy::dtensor
