#include "argosy/pipeline/cut/part_runner.h"

#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/pipeline/index.h"
#include "argosy/torch_hooks/autocast.h"
#include "argosy/trace/modes.h"

namespace argosy::pipeline {

namespace {

// Enables the cache of cast weights, valid until an optimizer changes them.
class CastCacheScope {
 public:
  CastCacheScope() { torch_hooks::begin_casts(); }
  ~CastCacheScope() { torch_hooks::end_casts(); }
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
  // A stride of 0 means an expanded tensor, which cannot be written to.
  if (is_same || std::ranges::find(strides, 0) != strides.end()) {
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
    is_used_.push_back(std::ranges::any_of(steps_, [&](const Step& step) {
      const auto& uses = graph.node(step.node).uses;
      return std::ranges::find(uses, value) != uses.end();
    }));
  }
  plan_releases();
}

// Walks backwards: the step that meets a value first is its last user. What the
// part sends counts as done from the start, so that no step releases it.
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

void PartRunner::run_step(trace::Run& run, const Step& step) const {
  run.run(step.node);
  const trace::Call& call = program_->calls[at(step.node)];
  for (const int value : call.results) {
    ARGOSY_CHECK(
        value < 0 ||
            run.get(value).sizes() ==
                at::IntArrayRef(program_->metas[at(value)].sizes),
        "[pipeline.run] {} made a tensor of the shape {}, in the recording {}: "
        "it depends on values, which a program cannot follow",
        call.op.operator_name().name,
        run.get(value).sizes(),
        trace::to_string({program_->metas[at(value)]}));
  }
  for (const int value : step.released) {
    run.release(value);
  }
}

void PartRunner::check(const Tensors& given) const {
  Metas metas = metas_of(given);
  const Metas expected = received();
  bool fits = metas.size() == expected.size();
  for (std::size_t i = 0; fits && i < metas.size(); ++i) {
    // Not requires_grad: evaluation runs the same parts without gradients.
    fits = metas[i].sizes == expected[i].sizes &&
        metas[i].type == expected[i].type;
  }
  ARGOSY_CHECK(
      fits,
      "[pipeline.run] a part got {}, expected {}",
      to_string(metas),
      to_string(expected));
}

// The DTensor of which this rank was given its part.
at::Tensor PartRunner::whole(std::size_t index, const at::Tensor& given) const {
  const int value = part_.receives[index];
  const auto layout = program_->layouts.find(value);
  if (layout == program_->layouts.end() || is_dtensor(given)) {
    return given;
  }
  const auto& [mesh, placements] = layout->second;
  return from_local(given, mesh, placements, program_->metas[at(value)].sizes);
}

// Protects the caller's tensors from in-place ops, and gives autograd no leaf
// to modify in place.
at::Tensor PartRunner::accept(
    std::size_t index, const at::Tensor& given) const {
  const at::Tensor tensor = is_dtensor(given)
      ? given
      : with_strides(given, program_->strides[at(part_.receives[index])]);
  return is_written_[index] && tensor.is_same(given) ? tensor.clone() : tensor;
}

// What the next part gets of a value.
at::Tensor PartRunner::to_send(
    std::size_t index, const at::Tensor& value) const {
  const bool is_last = part_.end == program_->graph.num_nodes();
  if (is_dtensor(value) && !is_last) {
    return to_local(value);
  }
  return is_used_[index] ? value.view_as(value) : value;
}

Tensors PartRunner::run(Tensors given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    given[i] = i < part_.receives.size() ? whole(i, given[i]) : given[i];
  }
  check(given);
  trace::Run run(*program_);
  for (std::size_t i = 0; i < given.size(); ++i) {
    run.set(part_.receives[i], accept(i, given[i]));
    // Else `given` would keep each received tensor until the part ends.
    given[i].reset();
  }
  std::optional<CastCacheScope> casts;
  if (switches_autocast_) {
    casts.emplace();
  }
  for (const Step& step : steps_) {
    run_step(run, step);
  }
  Tensors sent;
  for (std::size_t i = 0; i < part_.sends.size(); ++i) {
    sent.push_back(to_send(i, run.get(part_.sends[i])));
  }
  return sent;
}

} // namespace argosy::pipeline
