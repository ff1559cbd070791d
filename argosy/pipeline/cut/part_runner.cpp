#include "argosy/pipeline/cut/part_runner.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/pipeline/cut/modes.h"
#include "argosy/pipeline/index.h"
#include "argosy/tensor_parallel/rng.h"

namespace argosy::pipeline {

namespace {

// Sets the thread's modes while it is alive.
class ModesScope {
 public:
  explicit ModesScope(const Modes& modes) : grad_(modes.grad && is_grad()) {
    if (modes.autocast) {
      autocast_ = training::Autocast();
      modes.autocast->set();
    }
    if (modes.generator) {
      generator_.emplace(*modes.generator);
    }
  }
  ~ModesScope() {
    if (autocast_) {
      autocast_->set();
    }
  }
  ModesScope(const ModesScope&) = delete;
  ModesScope& operator=(const ModesScope&) = delete;

 private:
  static bool is_grad() { return c10::GradMode::is_enabled(); }

  const c10::AutoGradMode grad_;
  std::optional<training::Autocast> autocast_; // previous value
  std::optional<RngStatesTracker::Scope> generator_;
};

// Enables the cache of cast weights, valid until an optimizer changes them.
class CastCacheScope {
 public:
  CastCacheScope() { at::autocast::increment_nesting(); }
  ~CastCacheScope() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
  }
  CastCacheScope(const CastCacheScope&) = delete;
  CastCacheScope& operator=(const CastCacheScope&) = delete;
};

// Restores the strides of the recording, on which the last bits of some kernels
// depend.
at::Tensor with_strides(const at::Tensor& tensor, at::IntArrayRef strides) {
  bool is_same = true;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    is_same = is_same &&
        (tensor.sizes()[i] == 1 || tensor.strides()[i] == strides[i]);
  }
  if (is_same ||
      std::find(strides.begin(), strides.end(), 0) != strides.end()) {
    return tensor;
  }
  return at::empty_strided(tensor.sizes(), strides, tensor.options())
      .copy_(tensor);
}

} // namespace

PartRunner::PartRunner(std::shared_ptr<const Program> program, Part part)
    : program_(std::move(program)), part_(std::move(part)) {
  const Graph& graph = program_->graph;
  std::set<int> written; // written memories
  for (const int node : part_.nodes()) {
    steps_.push_back({.node = node});
    for (const int value : graph.node(node).writes) {
      written.insert(graph.value(value).memory);
    }
    const auto& modes = program_->calls[at(node)].modes;
    switches_autocast_ = switches_autocast_ || (modes && modes->autocast);
  }
  for (const int value : part_.receives) {
    is_written_.push_back(written.count(graph.value(value).memory) > 0);
  }
  for (const int value : part_.sends) {
    is_used_.push_back(
        std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
          const auto& uses = graph.node(step.node).uses;
          return std::find(uses.begin(), uses.end(), value) != uses.end();
        }));
  }
  plan_releases();
}

void PartRunner::plan_releases() {
  std::set<int> done(part_.sends.begin(), part_.sends.end());
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const Node& node = program_->graph.node(step->node);
    for (const auto* values : {&node.uses, &node.makes}) {
      for (const int value : *values) {
        if (done.insert(value).second) {
          step->released.push_back(value);
        }
      }
    }
  }
}

// One run: the values that are alive.
class PartRunner::Run {
 public:
  explicit Run(const Program& program)
      : program_(program), values_(program.graph.values.size()) {}

  void set(int value, at::Tensor tensor) {
    values_[at(value)] = std::move(tensor);
  }

  const at::Tensor& get(int value) const {
    const auto held = program_.held.find(value);
    return held == program_.held.end() ? values_[at(value)] : held->second;
  }

  void step(const Step& step) {
    const pipeline::Call& call = program_.calls[at(step.node)];
    if (call.modes) {
      const ModesScope modes(*call.modes);
      carry_out(call);
    } else {
      carry_out(call);
    }
    for (const int value : step.released) {
      values_[at(value)].reset();
    }
  }

 private:
  void carry_out(const pipeline::Call& call) {
    torch::jit::Stack stack;
    stack.reserve(call.arguments.size());
    for (const Argument& argument : call.arguments) {
      stack.push_back(value_of(argument));
    }
    call.op.callBoxed(stack);
    auto result = call.results.begin();
    for (const c10::IValue& returned : stack) {
      if (returned.isTensorList()) {
        for (const c10::IValue& each : returned.toListRef()) {
          take(*result++, each, call);
        }
      } else {
        take(*result++, returned, call);
      }
    }
  }

  c10::IValue value_of(const Argument& argument) const {
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
  c10::IValue list_of(const Argument& argument) const {
    c10::List<Element> list;
    list.reserve(argument.values.size());
    for (const int value : argument.values) {
      list.push_back(value < 0 ? Element() : Element(get(value)));
    }
    return list;
  }

  void take(int value, const c10::IValue& result, const pipeline::Call& call) {
    if (value < 0) {
      return;
    }
    values_[at(value)] = result.toTensor();
    const TensorMeta& meta = program_.metas[at(value)];
    ARGOSY_CHECK(
        values_[at(value)].sizes() == at::IntArrayRef(meta.sizes),
        "[pipeline.run] ",
        call.op.operator_name().name,
        " made a tensor of the shape ",
        values_[at(value)].sizes(),
        ", in the recording ",
        to_string({meta}),
        ": it depends on values, which a program cannot follow");
  }

  const Program& program_;
  std::vector<at::Tensor> values_;
};

void PartRunner::check(const Tensors& given) const {
  Metas metas = metas_of(given);
  const Metas expected = received();
  bool fits = metas.size() == expected.size();
  for (std::size_t i = 0; fits && i < metas.size(); ++i) {
    fits = metas[i].sizes == expected[i].sizes &&
        metas[i].type == expected[i].type;
  }
  ARGOSY_CHECK(
      fits,
      "[pipeline.run] a part got ",
      to_string(metas),
      ", expected ",
      to_string(expected));
}

// Protects the caller's tensors from in-place ops, and gives autograd no leaf
// to modify in place.
at::Tensor PartRunner::accept(
    std::size_t index, const at::Tensor& given) const {
  const at::Tensor tensor =
      with_strides(given, program_->strides[at(part_.receives[index])]);
  return is_written_[index] && tensor.is_same(given) ? tensor.clone() : tensor;
}

Tensors PartRunner::run(Tensors given) const {
  check(given);
  Run run(*program_);
  for (std::size_t i = 0; i < given.size(); ++i) {
    run.set(part_.receives[i], accept(i, given[i]));
    given[i].reset();
  }
  std::optional<CastCacheScope> casts;
  if (switches_autocast_) {
    casts.emplace();
  }
  for (const Step& step : steps_) {
    run.step(step);
  }
  Tensors sent;
  for (std::size_t i = 0; i < part_.sends.size(); ++i) {
    const at::Tensor& value = run.get(part_.sends[i]);
    sent.push_back(is_used_[i] ? value.view_as(value) : value);
  }
  return sent;
}

} // namespace argosy::pipeline
