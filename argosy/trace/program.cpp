#include "argosy/trace/program.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "argosy/torch_hooks/op_info.h"
#include "argosy/torch_hooks/thread_generator.h"
#include "argosy/trace/modes.h"

namespace argosy::trace {

namespace {

using torch_hooks::OpInfo;

void add_once(std::vector<int>& values, int value) {
  if (value >= 0 && std::ranges::find(values, value) == values.end()) {
    values.push_back(value);
  }
}

Argument argument_of(
    const c10::IValue& value,
    bool is_list,
    c10::function_ref<int(const at::Tensor&)> number_of) {
  if (value.isTensor() && value.toTensor().defined()) {
    return {
        .kind = Argument::Kind::kTensor,
        .values = {number_of(value.toTensor())}};
  }
  if (!is_list || value.isNone()) {
    return {.plain = value};
  }
  Argument argument{
      .kind = value.isTensorList() ? Argument::Kind::kList
                                   : Argument::Kind::kOptionalList};
  for (const c10::IValue& each : value.toListRef()) {
    argument.values.push_back(
        each.isTensor() && each.toTensor().defined()
            ? number_of(each.toTensor())
            : -1);
  }
  return argument;
}

// The thread runs under these while it lives.
class ModesScope {
 public:
  // A run without grad stays so: recorded modes switch grad off, never on.
  explicit ModesScope(const Modes& modes) : grad_(modes.grad && is_grad()) {
    if (modes.autocast) {
      autocast_.emplace(*modes.autocast);
    }
    if (modes.generator) {
      generator_.emplace(*modes.generator);
    }
  }
  ModesScope(const ModesScope&) = delete;
  ModesScope& operator=(const ModesScope&) = delete;

 private:
  static bool is_grad() { return c10::GradMode::is_enabled(); }

  const c10::AutoGradMode grad_;
  std::optional<torch_hooks::AutocastScope> autocast_;
  std::optional<torch_hooks::GeneratorScope> generator_;
};

} // namespace

int Program::add_value(
    Value value, TensorMeta meta, std::vector<std::int64_t> its_strides) {
  graph.values.push_back(std::move(value));
  metas.push_back(std::move(meta));
  strides.push_back(std::move(its_strides));
  return static_cast<int>(graph.values.size()) - 1;
}

void Program::add_node(Node node, Call call, double its_seconds) {
  graph.nodes.push_back(std::move(node));
  calls.push_back(std::move(call));
  seconds.push_back(its_seconds);
}

Metas Program::metas_of(const std::vector<int>& values) const {
  Metas chosen;
  for (const int value : values) {
    chosen.push_back(metas[at(value)]);
  }
  return chosen;
}

// Schemas do not say that batch norm writes to its running statistics.
bool is_written(const OpInfo& info, std::size_t argument) {
  const OpInfo::Arg& arg = info.args[argument];
  return arg.is_written || arg.name == "running_mean" ||
      arg.name == "running_var";
}

void add_arguments(
    const OpInfo& info,
    const c10::IValue* first,
    c10::function_ref<int(const at::Tensor&)> number_of,
    Call& call,
    Node& node) {
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    const bool is_list = info.args[i].kind == OpInfo::ArgKind::Tensors;
    call.arguments.push_back(argument_of(first[i], is_list, number_of));
    for (const int value : call.arguments.back().values) {
      add_once(node.uses, value);
      if (is_written(info, i)) {
        add_once(node.writes, value);
      }
    }
  }
}

void Run::set(int value, at::Tensor tensor) {
  values_[at(value)] = std::move(tensor);
}

const at::Tensor& Run::get(int value) const {
  // States and constants belong to the program and are never released.
  const auto held = program_.held.find(value);
  return held == program_.held.end() ? values_[at(value)] : held->second;
}

void Run::release(int value) {
  values_[at(value)].reset();
}

void Run::run(int node) {
  const Call& call = program_.calls[at(node)];
  std::optional<ModesScope> modes;
  if (call.modes) {
    modes.emplace(*call.modes);
  }
  carry_out(call);
}

void Run::carry_out(const Call& call) {
  torch::jit::Stack stack;
  stack.reserve(call.arguments.size());
  for (const Argument& argument : call.arguments) {
    stack.push_back(value_of(argument));
  }
  // From the top of the dispatcher, where the op was recorded: autograd and
  // autocast do their work again.
  call.op.callBoxed(stack);
  auto result = call.results.begin();
  const auto take = [&](const c10::IValue& returned) {
    if (*result >= 0) {
      set(*result, returned.toTensor());
    }
    ++result;
  };
  // `results` is flat, as Recorder::add_results() wrote it: an entry for each
  // tensor of a list.
  for (const c10::IValue& returned : stack) {
    if (returned.isTensorList()) {
      for (const c10::IValue& each : returned.toListRef()) {
        take(each);
      }
    } else {
      take(returned);
    }
  }
}

c10::IValue Run::value_of(const Argument& argument) const {
  switch (argument.kind) {
    case Argument::Kind::kPlain:
      return argument.plain;
    case Argument::Kind::kTensor:
      return get(argument.values[0]);
    case Argument::Kind::kList:
      return list_of<at::Tensor>(argument);
    case Argument::Kind::kOptionalList:
      return list_of<c10::optional<at::Tensor>>(argument);
  }
  return {};
}

template <typename Element>
c10::IValue Run::list_of(const Argument& argument) const {
  c10::List<Element> list;
  list.reserve(argument.values.size());
  for (const int value : argument.values) {
    list.push_back(value < 0 ? Element() : Element(get(value)));
  }
  return list;
}

} // namespace argosy::trace
