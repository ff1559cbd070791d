#include "argosy/dtensor/ops/rule.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/torch_hooks/op_info.h"

namespace argosy::dtensor {

namespace {

using ArgKind = OpInfo::ArgKind;

int argument_index(const OpInfo& info, std::string_view name) {
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    if (info.args[i].name == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::size_t require_index(const OpInfo& info, std::string_view name) {
  const int index = argument_index(info, name);
  ARGOSY_ASSERT(index >= 0, "{} has no argument {}", info.name, name);
  return static_cast<std::size_t>(index);
}

std::size_t num_tensors(const OpInfo::Arg& arg, const c10::IValue& value) {
  if (arg.is_out || value.isNone()) {
    return 0;
  }
  if (arg.kind == ArgKind::Tensor) {
    return value.toTensor().defined() ? 1 : 0;
  }
  std::size_t count = 0;
  if (arg.kind == ArgKind::Tensors) {
    for (const c10::IValue& each : value.toListRef()) {
      count += each.isTensor() && each.toTensor().defined() ? 1 : 0;
    }
  }
  return count;
}

// The first input of the argument of that name, or -1.
int input_index(
    const OpInfo& info, const c10::IValue* arguments, std::string_view name) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    const std::size_t here = num_tensors(info.args[i], arguments[i]);
    if (info.args[i].name == name) {
      return here == 0 ? -1 : static_cast<int>(before);
    }
    before += here;
  }
  return -1;
}

} // namespace

OpCall::OpCall(
    const OpInfo& info, const c10::IValue* arguments, const AxisView& view)
    : info_(info), arguments_(arguments), view_(view) {}

const std::string& OpCall::name() const {
  return info_.name;
}

int OpCall::input(std::string_view argument) const {
  return input_index(info_, arguments_, argument);
}

Shape OpCall::whole_shape(std::string_view argument) const {
  return arguments_[require_index(info_, argument)].toTensor().sizes().vec();
}

std::vector<int> OpCall::inputs(std::string_view argument) const {
  const c10::IValue* value = find(argument);
  std::vector<int> places;
  if (value == nullptr || !value->isList()) {
    return places;
  }
  int next = input(argument);
  for (const c10::IValue& each : value->toListRef()) {
    const bool given = each.isTensor() && each.toTensor().defined();
    places.push_back(given ? next++ : -1);
  }
  return places;
}

const at::Tensor& OpCall::tensor(std::string_view argument) const {
  return arguments_[require_index(info_, argument)].toTensor();
}

std::vector<at::Tensor> OpCall::tensors(std::string_view argument) const {
  std::vector<at::Tensor> given;
  if (const c10::IValue* list = find(argument)) {
    for (const c10::IValue& each : list->toListRef()) {
      if (each.isTensor() && each.toTensor().defined()) {
        given.push_back(each.toTensor());
      }
    }
  }
  return given;
}

bool OpCall::is_even(std::size_t input, std::size_t dim) const {
  return !is_cut_unevenly(input, dim) &&
      view_.shapes[input][dim] % view_.size == 0;
}

bool OpCall::is_cut_unevenly(std::size_t input, std::size_t dim) const {
  return (view_.uneven[input] >> dim & 1) != 0;
}

std::size_t OpCall::num_outputs() const {
  return info_.returns.size();
}

const Shape& OpCall::out_shape(std::size_t output) const {
  static const Shape unknown;
  return output < view_.outs.size() ? view_.outs[output] : unknown;
}

const c10::IValue* OpCall::find(std::string_view argument) const {
  const int index = argument_index(info_, argument);
  return index < 0 || arguments_[index].isNone() ? nullptr : &arguments_[index];
}

bool OpCall::has(std::string_view argument) const {
  return find(argument) != nullptr;
}

std::int64_t OpCall::integer(
    std::string_view argument, std::int64_t otherwise) const {
  const c10::IValue* value = find(argument);
  return value != nullptr && value->isInt() ? value->toInt() : otherwise;
}

bool OpCall::flag(std::string_view argument, bool otherwise) const {
  const c10::IValue* value = find(argument);
  return value != nullptr && value->isBool() ? value->toBool() : otherwise;
}

Shape OpCall::integers(std::string_view argument) const {
  const c10::IValue* value = find(argument);
  if (value == nullptr) {
    return {};
  }
  if (value->isInt()) {
    return {value->toInt()};
  }
  return value->toIntVector();
}

Strategy OpCall::strategy() const {
  return {
      std::vector<Placement>(num_inputs(), Replicate()),
      std::vector<Placement>(num_outputs(), Replicate())};
}

Strategy OpCall::strategy(Placement first_input, Placement outputs) const {
  Strategy strategy = this->strategy();
  strategy.inputs.at(0) = first_input;
  strategy.outputs.assign(num_outputs(), outputs);
  return strategy;
}

c10::IValue& LocalCall::argument(std::size_t index) {
  return stack_[stack_.size() - info_.args.size() + index];
}

c10::IValue& LocalCall::argument(std::string_view name) {
  return argument(require_index(info_, name));
}

const c10::IValue* LocalCall::find(std::string_view name) {
  const int index = argument_index(info_, name);
  return index < 0 ? nullptr : &argument(static_cast<std::size_t>(index));
}

const c10::IValue& LocalCall::original(std::string_view name) const {
  return originals_[require_index(info_, name)];
}

const Placements& LocalCall::placements(std::string_view name) const {
  const int index = input_index(info_, originals_, name);
  ARGOSY_ASSERT(index >= 0, "{} has no tensor {}", info_.name, name);
  return decision_.inputs[static_cast<std::size_t>(index)].placements;
}

void LocalCall::make_contiguous(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    argument(name) = argument(name).toTensor().contiguous();
  }
}

void LocalCall::run() {
  op_.callBoxed(stack_);
}

c10::IValue& LocalCall::result(std::size_t index) {
  return stack_[stack_.size() - info_.returns.size() + index];
}

void LocalCall::finish(c10::IValue result) {
  torch::jit::drop(stack_, info_.args.size());
  torch::jit::push(stack_, std::move(result));
}

void LocalCall::finish(torch::jit::Stack results) {
  torch::jit::drop(stack_, info_.args.size());
  for (c10::IValue& result : results) {
    torch::jit::push(stack_, std::move(result));
  }
}

} // namespace argosy::dtensor
