#include "argosy/torch_hooks/thread_generator.h"

#include <ATen/core/Generator.h>

#include <algorithm>

#include "argosy/common/thread_context.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::torch_hooks {

namespace {

struct CurrentGenerator {
  const at::Generator* pointer = nullptr;
};

const at::Generator*& current_generator() {
  return of_thread<CurrentGenerator>().pointer;
}

void give_generator(CaughtOp& caught, const at::Generator& generator) {
  const auto& arguments = caught.schema().arguments();
  c10::IValue* const first = caught.arguments();
  c10::IValue* const end = first + arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (first[i].isNone() && arguments[i].name() == "generator" &&
        std::none_of(first, end, [](const c10::IValue& value) {
          return value.isTensor() && is_wrapper(value.toTensor());
        })) {
      first[i] = generator;
    }
  }
}

bool catch_random_ops() {
  install_interceptor(
      InterceptOrder::kGenerator,
      "a generator for the random ops of a thread",
      [](CaughtOp& caught, c10::function_ref<void()> next) {
        if (const at::Generator* generator = current_generator()) {
          give_generator(caught, *generator);
        }
        next();
      });
  return catch_ops_of_thread(OpHook::kIntercept, true);
}

} // namespace

GeneratorScope::GeneratorScope(const at::Generator& generator)
    : generator_(std::make_unique<at::Generator>(generator)),
      outer_(current_generator()),
      was_caught_(catch_random_ops()) {
  current_generator() = generator_.get();
}

GeneratorScope::~GeneratorScope() {
  current_generator() = outer_;
  catch_ops_of_thread(OpHook::kIntercept, was_caught_);
}

const at::Generator* GeneratorScope::current() {
  return current_generator();
}

} // namespace argosy::torch_hooks
