#include "argosy/pipeline/cut/program.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/nn/module.h>

#include <optional>

#include "argosy/comm/operation/observer.h"
#include "argosy/common/error.h"
#include "argosy/pipeline/cut/recorder.h"
#include "argosy/pipeline/cut/released_states.h"
#include "argosy/recomputation/replayed_state.h"
#include "argosy/training/intercept.h"

namespace argosy::pipeline {

namespace {

thread_local Recorder* current_recorder = nullptr;

class RecorderScope {
 public:
  explicit RecorderScope(Recorder& recorder) : intercepted_(kInterceptKey) {
    ARGOSY_CHECK(
        current_recorder == nullptr,
        "[pipeline.record] record() within another");
    current_recorder = &recorder;
  }
  ~RecorderScope() { current_recorder = nullptr; }
  RecorderScope(const RecorderScope&) = delete;
  RecorderScope& operator=(const RecorderScope&) = delete;

 private:
  const c10::impl::IncludeDispatchKeyGuard intercepted_;
};

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
        "[pipeline.record] forward communicates: ",
        comm::to_string(*kind_),
        " is no op that can be recorded; cut such a module as a list of layers "
        "(PipelineLayer)");
  }

 private:
  std::optional<comm::OpKind> kind_;
};

} // namespace

void run_recorded(
    const c10::OperatorHandle& op,
    torch::jit::Stack& stack,
    c10::function_ref<void()> run) {
  if (current_recorder == nullptr) {
    run();
  } else {
    current_recorder->on_op(op, stack, run);
  }
}

Metas Program::metas_of(const std::vector<int>& values) const {
  Metas chosen;
  for (const int value : values) {
    chosen.push_back(metas[static_cast<std::size_t>(value)]);
  }
  return chosen;
}

Program record(
    torch::nn::Module& module,
    const Forward& forward,
    const Tensors& examples) {
  const c10::AutoGradMode with_grad(true);
  const auto set_back = recomputation::ReplayedState(true).restore();
  ZeroPlaceholders stand_ins;
  Recorder recorder;
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
    const RecorderScope scope(recorder);
    outputs = forward(inputs);
    heard.check_nothing();
  }
  return recorder.finish(outputs);
}

} // namespace argosy::pipeline
