#include "argosy/dtensor/deferred/deferred_init.h"

#include <set>
#include <string>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred/tape.h"
#include "argosy/dtensor/dispatch/register.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/op_info.h"
#include "argosy/world/world.h"

namespace argosy {

namespace dtensor {
namespace {

// Factories, which have no tensor to tell whose they are, can be caught here.
constexpr auto kHook = torch_hooks::OpHook::kFactory;

thread_local Tape* current_tape = nullptr;

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

bool is_deferred_value(const c10::IValue& value) {
  if (value.isTensor()) {
    return deferred_of(value.toTensor()) != nullptr;
  }
  if (value.isTensorList()) {
    for (const c10::IValue& each : value.toListRef()) {
      if (is_deferred_value(each)) {
        return true;
      }
    }
  }
  return false;
}

bool has_deferred(const OpInfo& info, const torch::jit::Stack& stack) {
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    if (is_deferred_value(stack[stack.size() - info.args.size() + i])) {
      return true;
    }
  }
  return false;
}

const c10::IValue& argument(
    const OpInfo& info, const torch::jit::Stack& stack, const char* name) {
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    if (info.args[i].name == name) {
      return stack[stack.size() - info.args.size() + i];
    }
  }
  throw InternalError(str(info.name, " has no argument ", name));
}

void begin_tensor(const OpInfo& info, torch::jit::Stack& stack) {
  const Shape shape = argument(info, stack, "size").toIntVector();
  const c10::IValue& dtype = argument(info, stack, "dtype");
  const at::ScalarType type = dtype.isNone()
      ? c10::typeMetaToScalarType(c10::get_default_dtype())
      : dtype.toScalarType();
  torch::jit::drop(stack, info.args.size());
  stack.emplace_back(current_tape->begin(shape, type));
}

void run_under_mode(torch_hooks::CaughtOp& caught) {
  const OpInfo& info = torch_hooks::op_info(caught.op());
  if (is_filled_factory(info.name)) { // the at::empty() in it comes here again
    caught.run();
  } else if (is_empty_factory(info.name)) {
    begin_tensor(info, caught.stack());
  } else {
    caught.run_uncaught();
  }
}

} // namespace
} // namespace dtensor

bool dtensor::record_deferred(
    const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (current_tape == nullptr ||
      !has_deferred(torch_hooks::op_info(op), stack)) {
    return false;
  }
  current_tape->record(op, stack);
  return true;
}

DeferredInit::DeferredInit() : tape_(std::make_shared<dtensor::Tape>()) {
  require_world("dtensor.deferred");
  ARGOSY_CHECK(
      dtensor::current_tape == nullptr,
      "[dtensor.deferred] DeferredInit within another");
  dtensor::install_dispatch();
  torch_hooks::install_op_hook(
      dtensor::kHook, "DeferredInit", &dtensor::run_under_mode);
  dtensor::current_tape = tape_.get();
  torch_hooks::catch_ops_of_thread(dtensor::kHook, true);
}

DeferredInit::~DeferredInit() {
  torch_hooks::catch_ops_of_thread(dtensor::kHook, false);
  dtensor::current_tape = nullptr;
}

bool is_deferred(const at::Tensor& tensor) {
  return dtensor::deferred_of(tensor) != nullptr;
}

} // namespace argosy
