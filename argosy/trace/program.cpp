#include "argosy/trace/program.h"

#include <algorithm>
#include <utility>

#include "argosy/torch_hooks/op_info.h"

namespace argosy::trace {

namespace {

using torch_hooks::OpInfo;

void add_once(std::vector<int>& values, int value) {
  if (value >= 0 &&
      std::find(values.begin(), values.end(), value) == values.end()) {
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
    chosen.push_back(metas[static_cast<std::size_t>(value)]);
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

} // namespace argosy::trace
