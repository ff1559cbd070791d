#include "argosy/parallel/pipeline/cut/program.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <sys/mman.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "argosy/comm/call_listener.h"
#include "argosy/common/error.h"
#include "argosy/parallel/intercept.h"
#include "argosy/parallel/pipeline/cut/recorder.h"
#include "argosy/parallel/recompute/replayed_state.h"

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
class Heard : public comm::CallListener {
 public:
  void on_call(const Call& call) override { kind_ = call.kind; }

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

// Zeros that take no memory while they are only read.
at::Tensor lazy_zeros(const at::Tensor& like) {
  const std::size_t bytes = std::max<std::size_t>(like.nbytes(), 1);
  void* data = ::mmap(
      nullptr,
      bytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1,
      0);
  if (data == MAP_FAILED) {
    throw SystemError(with_errno(str("[pipeline.record] mmap of ", bytes)));
  }
  return at::from_blob(
      data,
      like.sizes(),
      [bytes](void* begin) { ::munmap(begin, bytes); },
      like.options().device(at::kCPU).requires_grad(false));
}

// States without values have zeros while it lives.
class StandIns {
 public:
  void add(const at::Tensor& tensor) {
    if (tensor.is_meta()) {
      away_.emplace_back(
          tensor,
          tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(0, true));
      tensor.unsafeGetTensorImpl()->shallow_copy_from(
          lazy_zeros(tensor).getIntrusivePtr());
    }
  }

  StandIns() = default;
  ~StandIns() {
    for (const auto& [tensor, impl] : away_) {
      tensor.unsafeGetTensorImpl()->shallow_copy_from(impl);
    }
  }
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

 private:
  std::vector<std::pair<at::Tensor, c10::intrusive_ptr<c10::TensorImpl>>> away_;
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
  const auto set_back = parallel::ReplayedState(true).restore();
  StandIns stand_ins;
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
