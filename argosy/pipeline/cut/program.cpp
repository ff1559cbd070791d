#include "argosy/pipeline/cut/program.h"

#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <optional>

#include "argosy/comm/operation/observer.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/pipeline/cut/released_states.h"
#include "argosy/recomputation/replayed_state.h"
#include "argosy/trace/recorder.h"

namespace argosy::pipeline {

namespace {

// The last operation of a group that the thread issued outside of ops, which a
// run would not repeat.
class Heard : public comm::ThreadObserver {
 public:
  explicit Heard(const trace::Recorder& recorder) : recorder_(recorder) {}

  Token on_issue(const comm::Call& call, const std::vector<int>&) override {
    if (!recorder_.is_within_op()) {
      kind_ = call.kind;
    }
    return 0;
  }

  void check_nothing() const {
    ARGOSY_CHECK(
        !kind_,
        "[pipeline.record] forward calls {}, which is no op that can be "
        "recorded; call the one of argosy::functional, or wrap the call in "
        "argosy::trace::recorded_call()",
        comm::to_string(*kind_));
  }

 private:
  const trace::Recorder& recorder_;
  std::optional<comm::OpKind> kind_;
};

at::Tensor memory_of(const at::Tensor& tensor) {
  const dtensor::Parts* parts = dtensor::parts_of(tensor);
  return parts != nullptr ? parts->local : tensor;
}

} // namespace

Program record(
    torch::nn::Module& module,
    const Forward& forward,
    const Tensors& examples) {
  const c10::AutoGradMode with_grad(true);
  const auto set_back = recomputation::ReplayedState(true).restore();
  ZeroPlaceholders stand_ins;
  Program program;
  trace::Recorder recorder(
      {.memory = memory_of,
       .on_value = [&](int value, const at::Tensor& tensor) {
         if (is_dtensor(tensor)) {
           program.layouts.emplace(value, dist_attr(tensor));
         }
       }});
  for (const auto& states :
       {module.named_parameters(), module.named_buffers()}) {
    for (const auto& state : states) {
      if (state.value().defined()) {
        stand_ins.add(state.value());
        recorder.add_state(state.key(), state.value());
      }
    }
  }
  Tensors inputs;
  for (const at::Tensor& example : examples) {
    inputs.push_back(example.detach().requires_grad_(example.requires_grad()));
    recorder.add_input(inputs.back());
  }
  Tensors outputs;
  {
    const Heard heard(recorder);
    const trace::Recorder::Scope scope(recorder);
    outputs = forward(inputs);
    heard.check_nothing();
  }
  static_cast<trace::Program&>(program) = recorder.finish(outputs);
  return program;
}

} // namespace argosy::pipeline
