#include "argosy/pipeline/cut/program.h"

#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <optional>

#include "argosy/comm/operation/observer.h"
#include "argosy/common/error.h"
#include "argosy/pipeline/cut/released_states.h"
#include "argosy/recomputation/replayed_state.h"
#include "argosy/trace/recorder.h"

namespace argosy::pipeline {

namespace {

// The last operation of a group that the thread issued.
class Heard : public comm::ThreadObserver {
 public:
  Token on_issue(const comm::Call& call, const std::vector<int>&) override {
    kind_ = call.kind;
    return 0;
  }

  void check_nothing() const {
    ARGOSY_CHECK(
        !kind_,
        "[pipeline.record] forward communicates: {} is no op that can be "
        "recorded; cut such a module as a list of layers (PipelineLayer)",
        comm::to_string(*kind_));
  }

 private:
  std::optional<comm::OpKind> kind_;
};

} // namespace

Program record(
    torch::nn::Module& module,
    const Forward& forward,
    const Tensors& examples) {
  const c10::AutoGradMode with_grad(true);
  const auto set_back = recomputation::ReplayedState(true).restore();
  ZeroPlaceholders stand_ins;
  trace::Recorder recorder;
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
    const Heard heard;
    const trace::Recorder::Scope scope(recorder);
    outputs = forward(inputs);
    heard.check_nothing();
  }
  return recorder.finish(outputs);
}

} // namespace argosy::pipeline
