#include "argosy/recomputation/recorded_segment.h"

#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/recomputation/recomputed_call.h"
#include "argosy/torch_hooks/memoryless.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/op_info.h"
#include "argosy/torch_hooks/thread_generator.h"
#include "argosy/trace/modes.h"

namespace argosy::recomputation {

namespace {

using torch_hooks::OpInfo;
using Kind = trace::Value::Kind;

// While it lives, buffers have the contents that an op found there, so that it
// computes the same and they are not written twice.
class ContentsOfThen {
 public:
  explicit ContentsOfThen(const std::vector<Recording::Written>& written)
      : written_(written) {
    for (const auto& [state, contents] : written_) {
      now_.push_back(state.clone());
      // data(): backward would take a write to the buffer itself for an error.
      state.data().copy_(contents);
    }
  }
  ~ContentsOfThen() {
    for (std::size_t i = 0; i < written_.size(); ++i) {
      written_[i].state.data().copy_(now_[i]);
    }
  }
  ContentsOfThen(const ContentsOfThen&) = delete;
  ContentsOfThen& operator=(const ContentsOfThen&) = delete;

 private:
  const std::vector<Recording::Written>& written_;
  std::vector<at::Tensor> now_;
};

// By node: the values that no later one needs.
std::vector<std::vector<int>> last_used(const trace::Graph& graph) {
  std::vector<std::vector<int>> values(graph.nodes.size());
  const std::vector<int> last = trace::last_uses(graph);
  for (std::size_t value = 0; value < last.size(); ++value) {
    if (last[value] >= 0 && last[value] < graph.num_nodes()) {
      values[trace::at(last[value])].push_back(static_cast<int>(value));
    }
  }
  return values;
}

// Runs the ops again, so that they save their tensors; the results are dropped
// as soon as no later op needs them.
void replay(const Recording& recording, std::vector<at::Tensor> inputs) {
  const trace::Graph& graph = recording.program.graph;
  trace::Run run(recording.program);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    run.set(graph.inputs[i], std::move(inputs[i]));
  }
  const auto dead = last_used(graph);
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (recording.skipped.count(node) > 0) {
      continue;
    }
    const auto found = recording.written.find(node);
    std::optional<ContentsOfThen> then;
    if (found != recording.written.end()) {
      then.emplace(found->second);
    }
    run.run(node);
    for (const int value : dead[trace::at(node)]) {
      run.release(value);
    }
  }
}

// C++ code may fill the memory of at::empty() through its pointer, which no op
// shows. So its result counts as coming from outside.
bool is_empty_factory(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

bool returns_tensors(const OpInfo& info) {
  return !info.returns.empty() &&
      (info.returns[0].kind == OpInfo::ArgKind::Tensor ||
       info.returns[0].kind == OpInfo::ArgKind::Tensors);
}

template <typename F>
void for_each_written(
    const OpInfo& info, const c10::IValue* first, const F& action) {
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    if (trace::is_written(info, i) && first[i].isTensor() &&
        first[i].toTensor().defined()) {
      action(first[i].toTensor());
    }
  }
}

const c10::StorageImpl* memory_of(const at::Tensor& tensor) {
  return torch_hooks::storage_of(tensor).unsafeGetStorageImpl();
}

} // namespace

RecordedSegment::RecordedSegment(
    const RecomputeOptions& options,
    const std::unordered_set<const c10::TensorImpl*>& states)
    : states_(states),
      recording_(std::make_shared<Recording>()),
      program_(recording_->program),
      call_(std::make_shared<RecomputedCall>(
          options,
          std::vector<at::Tensor>(),
          [recording = recording_](std::vector<at::Tensor> inputs) {
            replay(*recording, std::move(inputs));
          })),
      first_run_(call_->state().first_run()),
      generator_(torch_hooks::GeneratorScope::current()),
      scope_(std::make_unique<torch_hooks::SavedTensorScope>(*call_)) {}

RecordedSegment::~RecordedSegment() {
  drop_unused_views();
}

// A view that no op of the segment uses may be there for writing to it later,
// as torch::tensor() does for each number. What it is a view of is then another
// tensor by the time of the replay, and need not be kept.
void RecordedSegment::drop_unused_views() {
  std::unordered_set<int> used;
  for (int i = program_.graph.num_nodes() - 1; i >= 0; --i) {
    const trace::Node& node = program_.graph.node(i);
    const bool is_unused = recording_->views.count(i) > 0 &&
        std::ranges::none_of(node.makes,
                             [&](int value) { return used.count(value) > 0; });
    if (is_unused) {
      recording_->skipped.insert(i);
    } else {
      used.insert(node.uses.begin(), node.uses.end());
    }
  }
  const std::vector<int>& inputs = program_.graph.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (used.count(inputs[i]) == 0) {
      call_->forget(i);
    }
  }
}

bool RecordedSegment::is_innermost() const {
  return scope_->is_innermost();
}

int RecordedSegment::add_value(const at::Tensor& tensor, Kind kind) {
  const int number = program_.add_value({.kind = kind}, {}, {});
  numbers_[tensor.unsafeGetTensorImpl()] = number;
  tensors_.emplace_back(tensor.getIntrusivePtr());
  return number;
}

// Outside of this segment's scope: what is kept must not become a placeholder
// of the segment that it is kept for.
void RecordedSegment::keep_input(const at::Tensor& tensor) {
  scope_.reset();
  call_->keep(tensor);
  scope_ = std::make_unique<torch_hooks::SavedTensorScope>(*call_);
}

int RecordedSegment::number_of(const at::Tensor& tensor) {
  const auto known = numbers_.find(tensor.unsafeGetTensorImpl());
  const bool is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (known != numbers_.end() && !is_number) {
    return known->second;
  }
  if (const auto* memory = memory_of(tensor)) {
    outer_memories_.insert(memory);
  }
  // LibTorch marks a tensor that stands for a C++ number after it made it; only
  // the tensor itself has the mark.
  if (is_number || is_state(tensor)) {
    const int number = add_value(tensor, Kind::kState);
    program_.held[number] = tensor;
    return number;
  }
  const int number = add_value(tensor, Kind::kInput);
  program_.graph.inputs.push_back(number);
  keep_input(tensor);
  return number;
}

// The op is about to write to a tensor from outside. The replay must write to
// something else with the same contents: a copy of what is there now.
void RecordedSegment::copy_written(const at::Tensor& tensor) {
  const auto known = numbers_.find(tensor.unsafeGetTensorImpl());
  const bool is_outer = known == numbers_.end() ||
      program_.graph.value(known->second).kind != Kind::kResult;
  if (!is_outer) {
    ARGOSY_CHECK(
        outer_memories_.count(memory_of(tensor)) == 0 ||
            memory_of(tensor) == nullptr,
        "[recomputation.modules] a recomputed module writes in place to a view "
        "of a tensor that it got; expected it to write to the tensor itself, "
        "or to a copy");
    return;
  }
  at::Tensor contents;
  {
    const c10::AutoGradMode no_grad(false);
    contents = tensor.clone();
  }
  contents.set_requires_grad(tensor.requires_grad());
  const int source = program_.add_value({.kind = Kind::kConstant}, {}, {});
  program_.held[source] = contents;
  const int copy = add_value(tensor, Kind::kResult);
  // Another copy in each replay, since the op changes it.
  static const c10::OperatorHandle clone =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  program_.add_node(
      {.op = "aten::clone", .uses = {source}, .makes = {copy}},
      {.op = clone,
       .arguments =
           {{.kind = trace::Argument::Kind::kTensor, .values = {source}}, {}},
       .results = {copy}});
}

void RecordedSegment::add_result(const c10::IValue& value, trace::Call& call) {
  if (!value.isTensor() || !value.toTensor().defined()) {
    call.results.push_back(-1);
    return;
  }
  const at::Tensor& tensor = value.toTensor();
  // What an op in place returns has a number already.
  const auto known = numbers_.find(tensor.unsafeGetTensorImpl());
  call.results.push_back(
      known != numbers_.end() ? known->second
                              : add_value(tensor, Kind::kResult));
}

void RecordedSegment::add_results(
    const OpInfo& info,
    const c10::IValue* first,
    trace::Call& call,
    trace::Node& node) {
  for (std::size_t i = 0; i < info.returns.size(); ++i) {
    if (info.returns[i].kind == OpInfo::ArgKind::Tensors) {
      for (const c10::IValue& each : first[i].toListRef()) {
        add_result(each, call);
      }
    } else {
      add_result(first[i], call);
    }
  }
  std::ranges::copy_if(
      call.results, std::back_inserter(node.makes), [](int result) {
        return result >= 0;
      });
}

void RecordedSegment::run(
    torch_hooks::CaughtOp& caught, c10::function_ref<void()> run) {
  const OpInfo& info = torch_hooks::op_info(caught.op());
  // An op that only answers, such as item(), has nothing to run again.
  if (is_empty_factory(info.name) || !returns_tensors(info)) {
    run();
    return;
  }
  trace::Call call{
      .op = caught.op(), .modes = trace::current_modes(autocast_, generator_)};
  trace::Node node{.op = info.name};
  // Before the op runs: it takes its arguments from the stack, and what it
  // overwrites is lost.
  std::vector<Recording::Written> written;
  for_each_written(info, caught.arguments(), [&](const at::Tensor& tensor) {
    if (is_state(tensor)) {
      const c10::AutoGradMode no_grad(false);
      written.push_back({tensor, tensor.clone()});
    } else {
      copy_written(tensor);
    }
  });
  trace::add_arguments(
      info,
      caught.arguments(),
      [&](const at::Tensor& tensor) { return number_of(tensor); },
      call,
      node);
  run();
  add_results(info, caught.results(), call, node);
  if (!written.empty()) {
    recording_->written[program_.graph.num_nodes()] = std::move(written);
  }
  if (info.makes_views && !info.writes) {
    recording_->views.insert(program_.graph.num_nodes());
  }
  program_.add_node(std::move(node), std::move(call));
}

} // namespace argosy::recomputation
