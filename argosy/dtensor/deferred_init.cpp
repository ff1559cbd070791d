#include "argosy/dtensor/deferred_init.h"

#include <torch/nn/module.h>

#include <set>
#include <string>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred/tape.h"
#include "argosy/dtensor/dispatch/register.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/op_info.h"
#include "argosy/torch_hooks/wrapper_tensor.h"
#include "argosy/world/world.h"

namespace argosy {

namespace dtensor {
namespace {

// Factories, which have no tensor to tell whose they are, can be caught here.
constexpr auto kHook = torch_hooks::OpHook::kFactory;

bool is_empty_factory(const std::string& name) {
  return name == "aten::empty.memory_format" || name == "aten::empty_strided";
}

// Made of at::empty() and an op in place.
bool is_filled_factory(const std::string& name) {
  static const std::set<std::string> names = {
      "aten::zeros",
      "aten::ones",
      "aten::full",
      "aten::rand",
      "aten::randn",
      "aten::randint",
      "aten::randint.low"};
  return names.count(name) > 0;
}

const c10::IValue& argument(
    const torch_hooks::OpInfo& info,
    const torch::jit::Stack& stack,
    const char* name) {
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    if (info.args[i].name == name) {
      return stack[stack.size() - info.args.size() + i];
    }
  }
  throw InternalError(str(info.name, " has no argument ", name));
}

void begin_tensor(const torch_hooks::OpInfo& info, torch::jit::Stack& stack) {
  const Shape shape = argument(info, stack, "size").toIntVector();
  const c10::IValue& dtype = argument(info, stack, "dtype");
  const at::ScalarType type = dtype.isNone()
      ? c10::typeMetaToScalarType(c10::get_default_dtype())
      : dtype.toScalarType();
  torch::jit::drop(stack, info.args.size());
  stack.emplace_back(current_tape()->begin(shape, type));
}

void run_under_mode(torch_hooks::CaughtOp& caught) {
  const torch_hooks::OpInfo& info = torch_hooks::op_info(caught.op());
  if (is_filled_factory(info.name)) { // the at::empty() in it comes here again
    caught.run();
  } else if (is_empty_factory(info.name)) {
    begin_tensor(info, caught.stack());
  } else {
    caught.run_uncaught();
  }
}

// While it lives, ops on tensors of a tape are recorded there.
class TapeScope {
 public:
  explicit TapeScope(Tape* tape) : before_(current_tape()) {
    set_current_tape(tape);
  }
  ~TapeScope() { set_current_tape(before_); }
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;

 private:
  Tape* const before_;
};

} // namespace
} // namespace dtensor

DeferredInit::DeferredInit() : tape_(std::make_shared<dtensor::Tape>()) {
  require_world("dtensor.deferred");
  ARGOSY_CHECK(
      dtensor::current_tape() == nullptr,
      "[dtensor.deferred] DeferredInit within another");
  dtensor::install_dispatch();
  torch_hooks::install_op_hook(
      dtensor::kHook, "DeferredInit", &dtensor::run_under_mode);
  dtensor::set_current_tape(tape_.get());
  torch_hooks::catch_ops_of_thread(dtensor::kHook, true);
}

DeferredInit::~DeferredInit() {
  torch_hooks::catch_ops_of_thread(dtensor::kHook, false);
  dtensor::set_current_tape(nullptr);
}

bool is_deferred(const at::Tensor& tensor) {
  return dtensor::deferred_of(tensor) != nullptr;
}

void materialize(const at::Tensor& tensor) {
  if (!is_deferred(tensor)) {
    return;
  }
  ARGOSY_CHECK(
      dtensor::current_tape() == nullptr,
      "[dtensor.deferred] a model is made real within the scope of "
      "DeferredInit, expected after it");
  // A copy: become() ends what the tensor stood for.
  const dtensor::DeferredParts deferred = *dtensor::deferred_of(tensor);
  const at::NoGradGuard no_grad;
  torch_hooks::become(tensor, deferred.tape->replay_plain(deferred.value));
}

void materialize(torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) {
    materialize(parameter);
  }
  for (const at::Tensor& buffer : module.buffers()) {
    materialize(buffer);
  }
}

void cast_deferred(const at::Tensor& tensor, c10::ScalarType type) {
  const dtensor::DeferredParts deferred = *dtensor::deferred_of(tensor);
  const at::NoGradGuard no_grad;
  const dtensor::TapeScope scope(deferred.tape.get());
  torch_hooks::become(tensor, tensor.to(type));
}

} // namespace argosy
