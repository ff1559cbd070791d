#include "argosy/torch_hooks/call_op.h"

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <utility>

#include "argosy/torch_hooks/kept_value.h"

namespace argosy::torch_hooks {

namespace {

using KeptFunction = KeptValue<TensorsMap>;

void run_call(
    const c10::OperatorHandle& /*op*/, torch::jit::Stack* const stack) {
  const auto kept = torch::jit::pop(*stack).toCapsule();
  const std::vector<at::Tensor> inputs =
      torch::jit::pop(*stack).toTensorVector();
  torch::jit::push(
      *stack, static_cast<const KeptFunction&>(*kept).value(inputs));
}

// Registrations stay for the life of the process: recorded programs hold the
// op. It has one kernel for all tensors, above autograd, as composite ops have.
c10::OperatorHandle define_call() {
  static auto* const library = new torch::Library(
      torch::Library::FRAGMENT, "argosy", c10::nullopt, __FILE__, __LINE__);
  library->def(
      "call(Tensor[] inputs, Capsule function) -> Tensor[]",
      torch::CppFunction::makeFromBoxedFunction<&run_call>());
  return c10::Dispatcher::singleton().findSchemaOrThrow(kCallOp, "");
}

} // namespace

std::vector<at::Tensor> call_as_op(
    const std::vector<at::Tensor>& inputs, TensorsMap fn) {
  static const c10::OperatorHandle op = define_call();
  torch::jit::Stack stack;
  torch::jit::push(
      stack,
      inputs,
      c10::IValue::make_capsule(
          c10::make_intrusive<KeptFunction>(std::move(fn))));
  op.callBoxed(stack);
  return stack.back().toTensorVector();
}

} // namespace argosy::torch_hooks
