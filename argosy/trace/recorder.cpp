#include "argosy/trace/recorder.h"

#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "argosy/common/error.h"
#include "argosy/common/thread_context.h"
#include "argosy/torch_hooks/call_op.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/op_info.h"
#include "argosy/torch_hooks/thread_generator.h"
#include "argosy/torch_hooks/wrapper_tensor.h"
#include "argosy/trace/op_flops.h"
#include "argosy/trace/recorded_call.h"

// How a recording works. Every tensor that an op takes or returns is a value,
// known by the address of its TensorImpl, which all handles share. A memory is
// a storage: values with the same memory number are views of each other, so a
// write to one counts for all. An op becomes a node; the ops that it calls are
// part of it. The cost is a map look-up for each tensor of an op. add_alias()
// and contents_of() search all values, and check_answer() all nodes, but few
// ops need them.
namespace argosy::trace {

namespace {

using ArgKind = torch_hooks::OpInfo::ArgKind;
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
    return std::ranges::any_of(indices, is_mask);
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

// Sparse tensors throw when they are asked for strides.
std::vector<std::int64_t> strides_of(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided ? tensor.strides().vec()
                                         : std::vector<std::int64_t>();
}

constexpr auto kHook = torch_hooks::OpHook::kIntercept;

struct CurrentRecorder {
  Recorder* pointer = nullptr;
};

Recorder*& current_recorder() {
  return of_thread<CurrentRecorder>().pointer;
}

// Whether ops of the thread were caught before.
bool catch_ops(torch_hooks::Interceptor interceptor) {
  ARGOSY_CHECK(
      current_recorder() == nullptr,
      "[trace.record] a recording within another");
  torch_hooks::install_interceptor(
      torch_hooks::InterceptOrder::kRecorder, "a recording", interceptor);
  return torch_hooks::catch_ops_of_thread(kHook, true);
}

} // namespace

Recorder::Scope::Scope(Recorder& recorder)
    // catch_ops() may throw, so it comes before this recorder is made the
    // thread's.
    : was_caught_(catch_ops(&record_op)) {
  current_recorder() = &recorder;
}

Recorder::Scope::~Scope() {
  current_recorder() = nullptr;
  torch_hooks::catch_ops_of_thread(kHook, was_caught_);
}

bool is_recording() {
  const Recorder* const recorder = current_recorder();
  return recorder != nullptr && !recorder->is_within_op();
}

void record_op(torch_hooks::CaughtOp& caught, c10::function_ref<void()> run) {
  Recorder* const recorder = current_recorder();
  if (recorder == nullptr) {
    run();
  } else {
    recorder->on_op(caught, run);
  }
}

Recorder::Recorder(Wrappers wrappers)
    : wrappers_(std::move(wrappers)),
      generator_(torch_hooks::GeneratorScope::current()) {}

Recorder::~Recorder() {
  // The recording ran forward for real; what it changed outside goes back.
  const torch_hooks::UncaughtOps plain(kHook);
  const c10::AutoGradMode no_grad(false);
  for (const auto& [tensor, contents] : kept_) {
    tensor.copy_(contents);
  }
}

// A wrapper has a storage of its own, also when it is a view of another one.
at::Tensor Recorder::memory_holder(const at::Tensor& tensor) const {
  return wrappers_.memory && torch_hooks::is_wrapper(tensor)
      ? wrappers_.memory(tensor)
      : tensor;
}

int Recorder::memory_of(const at::Tensor& given) {
  const at::Tensor tensor = memory_holder(given);
  if (!tensor.has_storage()) {
    // Not strided: no other tensor can be a view of it.
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
  const auto bytes =
      static_cast<std::int64_t>(tensor.numel() * tensor.itemsize());
  const int number = program_.add_value(
      {.kind = kind, .bytes = bytes, .memory = memory_of(tensor)},
      metas_of({tensor})[0],
      strides_of(tensor));
  offsets_.push_back(tensor.has_storage() ? tensor.storage_offset() : 0);
  // Replaces the number of a tensor that squeeze_() and the like have changed:
  // later ops mean the new value.
  numbers_[tensor.unsafeGetTensorImpl()] = number;
  tensors_.emplace_back(tensor.getIntrusivePtr());
  if (wrappers_.on_value) {
    wrappers_.on_value(number, tensor);
  }
  return number;
}

void Recorder::add_state(const std::string& name, const at::Tensor& tensor) {
  const auto known = numbers_.find(tensor.unsafeGetTensorImpl());
  // Modules that share a parameter each register it: one value, several names.
  const int number =
      known == numbers_.end() ? add_value(Kind::kState, tensor) : known->second;
  program_.graph.values[at(number)].names.push_back(name);
  program_.held[number] = tensor;
}

void Recorder::add_input(const at::Tensor& tensor) {
  program_.graph.inputs.push_back(add_value(Kind::kInput, tensor));
}

// A tensor that shares memory with a known value although no op made it, as
// data() does. Recorded as a detach() of a value with the same type, sizes,
// strides and offset, which makes an equal tensor in a run.
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
      "[trace.record] {} takes a tensor {} that shares memory with another of "
      "this forward, but no op made it",
      op,
      to_string(metas_of({tensor})));
  const int made = add_value(Kind::kResult, tensor);
  static const c10::OperatorHandle detach =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");
  program_.add_node(
      {.op = "aten::detach", .uses = {source}, .makes = {made}},
      {.op = detach,
       .arguments = {{.kind = Argument::Kind::kTensor, .values = {source}}},
       .results = {made}});
  return made;
}

int Recorder::add_constant(const at::Tensor& tensor, const std::string& op) {
  ARGOSY_CHECK(
      !tensor.requires_grad(),
      "[trace.record] {} takes a tensor {} that needs a gradient and is no "
      "parameter of the module; register it there, or pass it as an input",
      op,
      to_string(metas_of({tensor})));
  const int number = add_value(Kind::kConstant, tensor);
  program_.held[number] = tensor;
  return number;
}

// A torch::autograd::Function runs its ops without grad and gives the result a
// history afterwards. A run would repeat the ops and lose that backward. So a
// result must require a gradient exactly if it did when its op returned, unless
// a write in place has changed that since.
void Recorder::check_history(int number, const at::Tensor& tensor) const {
  const int memory = program_.graph.value(number).memory;
  ARGOSY_CHECK(
      tensor.requires_grad() == meta(number).requires_grad ||
          last_writes_.count(memory) > 0 ||
          program_.graph.value(number).kind != Kind::kResult,
      "[trace.record] the result {} of a torch::autograd::Function, whose "
      "backward is not made of ops; call the function through "
      "argosy::trace::recorded_call(), or cut the module as a list of layers "
      "(PipelineLayer)",
      to_string({meta(number)}));
}

int Recorder::number_of(const at::Tensor& tensor, const std::string& op) {
  const auto known = numbers_.find(tensor.unsafeGetTensorImpl());
  if (known == numbers_.end()) {
    // Of a wrapper, only an op or a recorded call can make another.
    const bool is_alias = tensor.has_storage() &&
        !torch_hooks::is_wrapper(tensor) &&
        memories_.count(tensor.storage().unsafeGetStorageImpl()) > 0;
    return is_alias ? add_alias(tensor, op) : add_constant(tensor, op);
  }
  // LibTorch marks a tensor that stands for a C++ number after it made it, for
  // type promotion. A run would not mark it, so a marked copy is a constant.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
      program_.graph.value(known->second).kind == Kind::kResult) {
    const torch_hooks::UncaughtOps plain(kHook);
    const at::Tensor copy = tensor.clone();
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    return add_constant(copy, op);
  }
  check_history(known->second, tensor);
  return known->second;
}

void Recorder::keep_contents(int number, const at::Tensor& tensor) {
  const Value& value = program_.graph.value(number);
  // Only what was there before the first write goes back. Results live in the
  // recording alone.
  const bool is_kept =
      value.kind == Kind::kResult || last_writes_.count(value.memory) > 0;
  if (!is_kept) {
    const torch_hooks::UncaughtOps plain(kHook);
    const c10::AutoGradMode no_grad(false);
    kept_.emplace_back(tensor.detach(), tensor.clone());
  }
}

void Recorder::keep_written(
    const Info& info, const c10::IValue* first, const Call& call) {
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    if (is_written(info, i) &&
        call.arguments[i].kind == Argument::Kind::kTensor) {
      keep_contents(call.arguments[i].values[0], first[i].toTensor());
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
  // Answers about fixed values, such as a causal mask, are the same in each
  // run.
  const std::vector<bool> fixed = fixed_values(program_.graph);
  for (const int value : node.uses) {
    ARGOSY_CHECK(
        fixed[at(value)],
        "[trace.record] ",
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
      strides_of(tensor) != program_.strides[at(known->second)];
  if (is_new) { // also what squeeze_() returns: the same tensor in a new shape
    call.results.push_back(add_value(Kind::kResult, tensor));
    node.makes.push_back(call.results.back());
    return;
  }
  call.results.push_back(known->second);
  if (std::ranges::find(node.uses, known->second) == node.uses.end()) {
    node.uses.push_back(known->second);
  }
  // A write in place may have made the tensor require a gradient.
  program_.metas[at(known->second)] = metas_of({tensor})[0];
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
  const auto i = at(number);
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
  throw InternalError("[trace.record] a memory without tensors");
}

// C++ code may fill the memory of at::empty() through its pointer, as
// at::tensor() does; no op shows that, and a run would read garbage. So when an
// op first reads a memory that no op has written, the node of its at::empty()
// becomes a clone() of a constant that holds what is there now.
void Recorder::bake_contents(int memory) {
  const int empty = unwritten_.at(memory);
  unwritten_.erase(memory);
  Call& call = program_.calls[at(empty)];
  Node& node = program_.graph.nodes[at(empty)];
  const int made = call.results[0];
  const torch_hooks::UncaughtOps plain(kHook);
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
  const int here = program_.graph.num_nodes();
  // Writes first: an op that fills a memory does not depend on what was there.
  for (const int value : node.writes) {
    last_writes_[program_.graph.value(value).memory] = here;
    unwritten_.erase(program_.graph.value(value).memory);
  }
  for (const int value : node.uses) {
    const int memory = program_.graph.value(value).memory;
    // A view passes the memory on without reading it.
    const bool is_viewed = std::ranges::any_of(call.results, [&](int result) {
      return result >= 0 && program_.graph.value(result).memory == memory;
    });
    if (unwritten_.count(memory) > 0 && !is_viewed &&
        !reads_no_values(info.name)) {
      bake_contents(memory);
    }
  }
  if (is_empty_factory(info.name)) {
    unwritten_[program_.graph.value(call.results[0]).memory] = here;
  }
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
    torch_hooks::CaughtOp& caught, c10::function_ref<void()> run) {
  const Info& info = torch_hooks::op_info(caught.op());
  if (is_within_op_) {
    is_random_within_ |= info.is_random;
    products_within_ += product_flops(info.name, caught.arguments());
    run();
    return;
  }
  Call call{.op = caught.op(), .modes = current_modes(autocast_, generator_)};
  Node node{.op = info.name};
  const auto number = [&](const at::Tensor& tensor) {
    return number_of(tensor, info.name);
  };
  // Before the op runs: afterwards its arguments are gone from the stack, and
  // what it overwrites is lost.
  add_arguments(info, caught.arguments(), number, call, node);
  keep_written(info, caught.arguments(), call);
  check_answer(caught.op(), info, node, caught.arguments());
  is_random_within_ = info.is_random;
  products_within_ = 0;
  const double seconds = run_within(run);
  add_results(info, caught.results(), call, node);
  // Random, too, if an op that it called is.
  node.is_random = is_random_within_;
  node.work = info.makes_views ? 0 : estimate_flops(node, program_.metas);
  if (info.name == torch_hooks::kCallOp) {
    node.work += products_within_; // which its name and shapes do not tell
  }
  note_memories(info, call, node);
  program_.add_node(std::move(node), std::move(call), seconds);
}

Program Recorder::finish(const std::vector<at::Tensor>& outputs) {
  for (const at::Tensor& output : outputs) {
    ARGOSY_CHECK(
        output.defined(), "[trace.record] forward returns an undefined tensor");
    program_.graph.outputs.push_back(number_of(output, "the result"));
  }
  return std::move(program_);
}

} // namespace argosy::trace
