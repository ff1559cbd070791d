#include "argosy/pipeline/cut/recorder.h"

#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "argosy/common/error.h"
#include "argosy/dtensor/dispatch/op_info.h"
#include "argosy/pipeline/cut/op_flops.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/training/intercept.h"

namespace argosy::pipeline {

namespace {

using ArgKind = dtensor::OpInfo::ArgKind;
using Kind = Value::Kind;

// Ops whose answer is no tensor, but depends on the values of one.
bool asks_for_values(const c10::OperatorHandle& op) {
  static const std::set<std::string> names = {
      "aten::item",
      "aten::_local_scalar_dense",
      "aten::equal",
      "aten::allclose",
      "aten::is_nonzero"};
  return names.count(op.operator_name().name) > 0 ||
      op.hasTag(at::Tag::data_dependent_output);
}

bool is_mask(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() &&
      (value.toTensor().scalar_type() == at::kBool ||
       value.toTensor().scalar_type() == at::kByte);
}

// Ops whose result has as many elements as values say.
bool has_shape_of_values(
    const c10::OperatorHandle& op, const c10::IValue* arguments) {
  if (op.operator_name().name == "aten::index") {
    const auto indices = arguments[1].toListRef();
    return std::any_of(indices.begin(), indices.end(), is_mask);
  }
  if (op.operator_name().name == "aten::one_hot") {
    return arguments[1].toInt() < 0; // else it is told how many classes
  }
  return op.hasTag(at::Tag::dynamic_output_shape);
}

bool is_empty_factory(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

// Whether an op looks at the shape of its tensors alone.
bool reads_no_values(const std::string& name) {
  return name.starts_with("aten::new_") ||
      name.find("_like") != std::string::npos;
}

// Schemas do not say that batch norm writes to these.
bool is_written(const dtensor::OpInfo::Arg& argument) {
  return argument.is_written || argument.name == "running_mean" ||
      argument.name == "running_var";
}

std::vector<std::int64_t> strides_of(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided ? tensor.strides().vec()
                                         : std::vector<std::int64_t>();
}

void add_once(std::vector<int>& values, int value) {
  if (value >= 0 &&
      std::find(values.begin(), values.end(), value) == values.end()) {
    values.push_back(value);
  }
}

} // namespace

Recorder::Recorder() : generator_(RngStatesTracker::Scope::current()) {}

Recorder::~Recorder() {
  const c10::impl::ExcludeDispatchKeyGuard plain(kInterceptKey);
  const c10::AutoGradMode no_grad(false);
  for (const auto& [tensor, contents] : kept_) {
    tensor.copy_(contents);
  }
}

int Recorder::memory_of(const at::Tensor& tensor) {
  if (!tensor.has_storage()) {
    return num_memories_++;
  }
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto [found, is_new] = memories_.emplace(storage, num_memories_);
  if (is_new) {
    ++num_memories_;
    storages_.push_back(tensor.storage().getWeakStorageImpl());
  }
  return found->second;
}

int Recorder::add_value(Kind kind, const at::Tensor& tensor) {
  const int number = static_cast<int>(program_.graph.values.size());
  program_.metas.push_back(metas_of({tensor})[0]);
  program_.strides.push_back(strides_of(tensor));
  program_.graph.values.push_back(
      {.kind = kind,
       .bytes = static_cast<std::int64_t>(tensor.numel() * tensor.itemsize()),
       .memory = memory_of(tensor)});
  offsets_.push_back(tensor.has_storage() ? tensor.storage_offset() : 0);
  numbers_[tensor.unsafeGetTensorImpl()] = number;
  tensors_.emplace_back(tensor.getIntrusivePtr());
  return number;
}

void Recorder::add_state(const std::string& name, const at::Tensor& tensor) {
  const auto known = numbers_.find(tensor.unsafeGetTensorImpl());
  const int number =
      known == numbers_.end() ? add_value(Kind::kState, tensor) : known->second;
  program_.graph.values[static_cast<std::size_t>(number)].names.push_back(name);
  program_.held[number] = tensor;
}

void Recorder::add_input(const at::Tensor& tensor) {
  program_.graph.inputs.push_back(add_value(Kind::kInput, tensor));
}

// A second tensor of the same memory that no op has made, as data() and
// torch::tensor() do: what detach() would have returned.
int Recorder::add_alias(const at::Tensor& tensor, const std::string& op) {
  const int memory = memory_of(tensor);
  int source = -1;
  for (std::size_t i = 0; i < program_.graph.values.size(); ++i) {
    if (program_.graph.values[i].memory == memory &&
        offsets_[i] == tensor.storage_offset() &&
        program_.metas[i].type == tensor.scalar_type() &&
        tensor.sizes() == at::IntArrayRef(program_.metas[i].sizes) &&
        tensor.strides() == at::IntArrayRef(program_.strides[i])) {
      source = static_cast<int>(i);
    }
  }
  ARGOSY_CHECK(
      source >= 0 && !tensor.requires_grad(),
      "[pipeline.record] ",
      op,
      " takes a tensor ",
      to_string(metas_of({tensor})),
      " that shares memory with another of this forward, but no op made it");
  const int made = add_value(Kind::kResult, tensor);
  static const c10::OperatorHandle detach =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");
  program_.calls.push_back(
      {.op = detach,
       .arguments = {{.kind = Argument::Kind::kTensor, .values = {source}}},
       .results = {made}});
  program_.graph.nodes.push_back(
      {.op = "aten::detach", .uses = {source}, .makes = {made}});
  program_.seconds.push_back(0);
  return made;
}

int Recorder::add_constant(const at::Tensor& tensor, const std::string& op) {
  ARGOSY_CHECK(
      !tensor.requires_grad(),
      "[pipeline.record] ",
      op,
      " takes a tensor ",
      to_string(metas_of({tensor})),
      " that needs a gradient and is no parameter of the module; register it "
      "there, or pass it as an input");
  const int number = add_value(Kind::kConstant, tensor);
  program_.held[number] = tensor;
  return number;
}

// Autograd knows of more than ops have told it.
void Recorder::check_history(int number, const at::Tensor& tensor) const {
  const int memory = program_.graph.value(number).memory;
  ARGOSY_CHECK(
      tensor.requires_grad() == meta(number).requires_grad ||
          last_writes_.count(memory) > 0 ||
          program_.graph.value(number).kind != Kind::kResult,
      "[pipeline.record] the result ",
      to_string({meta(number)}),
      " of a torch::autograd::Function, whose backward is not made of ops; a "
      "module with one can be cut as a list of layers (PipelineLayer)");
}

int Recorder::number_of(const at::Tensor& tensor, const std::string& op) {
  const auto known = numbers_.find(tensor.unsafeGetTensorImpl());
  if (known == numbers_.end()) {
    const bool is_alias = tensor.has_storage() &&
        memories_.count(tensor.storage().unsafeGetStorageImpl()) > 0;
    return is_alias ? add_alias(tensor, op) : add_constant(tensor, op);
  }
  // Not what an op has made, but a number that became a tensor: its type gives
  // way to those of others.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
      program_.graph.value(known->second).kind == Kind::kResult) {
    const c10::impl::ExcludeDispatchKeyGuard plain(kInterceptKey);
    const at::Tensor copy = tensor.clone();
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    return add_constant(copy, op);
  }
  check_history(known->second, tensor);
  return known->second;
}

Argument Recorder::argument_of(
    const c10::IValue& value, bool is_list, const std::string& op) {
  if (value.isTensor() && value.toTensor().defined()) {
    return {
        .kind = Argument::Kind::kTensor,
        .values = {number_of(value.toTensor(), op)}};
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
            ? number_of(each.toTensor(), op)
            : -1);
  }
  return argument;
}

void Recorder::keep_contents(int number, const at::Tensor& tensor) {
  const Value& value = program_.graph.value(number);
  const bool is_kept =
      value.kind == Kind::kResult || last_writes_.count(value.memory) > 0;
  if (!is_kept) {
    const c10::impl::ExcludeDispatchKeyGuard plain(kInterceptKey);
    const c10::AutoGradMode no_grad(false);
    kept_.emplace_back(tensor.detach(), tensor.clone());
  }
}

void Recorder::add_arguments(
    const Info& info, const c10::IValue* first, Call& call, Node& node) {
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    const bool is_list = info.args[i].kind == ArgKind::Tensors;
    call.arguments.push_back(argument_of(first[i], is_list, info.name));
    const Argument& argument = call.arguments.back();
    for (const int value : argument.values) {
      add_once(node.uses, value);
      if (is_written(info.args[i])) {
        add_once(node.writes, value);
      }
    }
    if (is_written(info.args[i]) && argument.kind == Argument::Kind::kTensor) {
      keep_contents(argument.values[0], first[i].toTensor());
    }
  }
}

void Recorder::check_answer(
    const c10::OperatorHandle& op,
    const Info& info,
    const Node& node,
    const c10::IValue* arguments) const {
  const bool asks = asks_for_values(op);
  if (!asks && !has_shape_of_values(op, arguments)) {
    return;
  }
  const std::vector<bool> fixed = fixed_values(program_.graph);
  for (const int value : node.uses) {
    ARGOSY_CHECK(
        fixed[static_cast<std::size_t>(value)],
        "[pipeline.record] ",
        info.name,
        asks ? " asks for a value" : " makes a shape that depends on values",
        " of a tensor ",
        to_string({meta(value)}),
        ", and what forward does next may depend on it; expected a forward "
        "that does the same for all values, e.g. with where() or masks");
  }
}

void Recorder::add_result(const c10::IValue& value, Call& call, Node& node) {
  if (!value.isTensor() || !value.toTensor().defined()) {
    call.results.push_back(-1);
    return;
  }
  const at::Tensor& tensor = value.toTensor();
  const auto known = numbers_.find(tensor.unsafeGetTensorImpl());
  const bool is_new = known == numbers_.end() ||
      tensor.sizes() != at::IntArrayRef(meta(known->second).sizes) ||
      strides_of(tensor) !=
          program_.strides[static_cast<std::size_t>(known->second)];
  if (is_new) { // also what squeeze_() returns: the same tensor in a new shape
    call.results.push_back(add_value(Kind::kResult, tensor));
    node.makes.push_back(call.results.back());
    return;
  }
  call.results.push_back(known->second);
  add_once(node.uses, known->second);
  program_.metas[static_cast<std::size_t>(known->second)] =
      metas_of({tensor})[0];
}

void Recorder::add_results(
    const Info& info, const c10::IValue* first, Call& call, Node& node) {
  for (std::size_t i = 0; i < info.returns.size(); ++i) {
    if (info.returns[i].kind == ArgKind::Tensors) {
      for (const c10::IValue& each : first[i].toListRef()) {
        add_result(each, call, node);
      }
    } else {
      add_result(first[i], call, node);
    }
  }
}

// A copy of a value's memory as it is now, through a tensor that is alive.
at::Tensor Recorder::contents_of(int number) const {
  const auto i = static_cast<std::size_t>(number);
  for (std::size_t other = 0; other < tensors_.size(); ++other) {
    const at::Tensor tensor(tensors_[other].lock());
    if (tensor.defined() &&
        program_.graph.values[other].memory ==
            program_.graph.values[i].memory) {
      return tensor.detach()
          .as_strided(program_.metas[i].sizes, program_.strides[i], offsets_[i])
          .clone();
    }
  }
  throw InternalError("[pipeline.record] a memory without tensors");
}

// What a memory of at::empty() holds was written by no op: as it is now.
void Recorder::bake_contents(int memory) {
  const int at = unwritten_.at(memory);
  unwritten_.erase(memory);
  Call& call = program_.calls[static_cast<std::size_t>(at)];
  Node& node = program_.graph.nodes[static_cast<std::size_t>(at)];
  const int made = call.results[0];
  const c10::impl::ExcludeDispatchKeyGuard plain(kInterceptKey);
  const int constant = add_constant(contents_of(made), node.op);
  static const c10::OperatorHandle clone =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  call = {
      .op = clone,
      .arguments =
          {{.kind = Argument::Kind::kTensor, .values = {constant}}, {}},
      .results = {made}};
  node = {.op = "aten::clone", .uses = {constant}, .makes = {made}};
}

void Recorder::note_memories(
    const Info& info, const Call& call, const Node& node) {
  const int at = program_.graph.num_nodes();
  for (const int value : node.writes) {
    last_writes_[program_.graph.value(value).memory] = at;
    unwritten_.erase(program_.graph.value(value).memory);
  }
  for (const int value : node.uses) {
    const int memory = program_.graph.value(value).memory;
    const bool is_viewed =
        std::any_of(call.results.begin(), call.results.end(), [&](int result) {
          return result >= 0 && program_.graph.value(result).memory == memory;
        });
    if (unwritten_.count(memory) > 0 && !is_viewed &&
        !reads_no_values(info.name)) {
      bake_contents(memory);
    }
  }
  if (is_empty_factory(info.name)) {
    unwritten_[program_.graph.value(call.results[0]).memory] = at;
  }
}

std::shared_ptr<const Modes> Recorder::modes() const {
  const training::Autocast autocast;
  const at::Generator* generator = RngStatesTracker::Scope::current();
  const bool grad = c10::GradMode::is_enabled();
  if (grad && autocast == autocast_ && generator == generator_) {
    return nullptr;
  }
  Modes modes{.grad = grad};
  if (autocast != autocast_) {
    modes.autocast = autocast;
  }
  if (generator != nullptr && generator != generator_) {
    modes.generator = *generator;
  }
  return std::make_shared<Modes>(std::move(modes));
}

// The ops that an op calls are a part of it.
double Recorder::run_within(c10::function_ref<void()> run) {
  const auto began = std::chrono::steady_clock::now();
  is_within_op_ = true;
  try {
    run();
  } catch (...) {
    is_within_op_ = false;
    throw;
  }
  is_within_op_ = false;
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - began;
  return passed.count();
}

void Recorder::on_op(
    const c10::OperatorHandle& op,
    torch::jit::Stack& stack,
    c10::function_ref<void()> run) {
  const Info& info = dtensor::op_info(op);
  if (is_within_op_) {
    is_random_within_ |= info.is_random;
    run();
    return;
  }
  Call call{.op = op, .modes = modes()};
  Node node{.op = info.name};
  const c10::IValue* arguments =
      stack.data() + (stack.size() - info.args.size());
  add_arguments(info, arguments, call, node);
  check_answer(op, info, node, arguments);
  is_random_within_ = info.is_random;
  const double seconds = run_within(run);
  add_results(
      info, stack.data() + (stack.size() - info.returns.size()), call, node);
  node.is_random = is_random_within_;
  node.work = info.makes_views ? 0 : estimate_work(node, program_.metas);
  note_memories(info, call, node);
  program_.graph.nodes.push_back(std::move(node));
  program_.calls.push_back(std::move(call));
  program_.seconds.push_back(seconds);
}

Program Recorder::finish(const Tensors& outputs) {
  for (const at::Tensor& output : outputs) {
    ARGOSY_CHECK(
        output.defined(),
        "[pipeline.record] forward returns an undefined tensor");
    program_.graph.outputs.push_back(number_of(output, "the result"));
  }
  return std::move(program_);
}

} // namespace argosy::pipeline
