#include "argosy/torch_hooks/op_casts.h"

#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>

#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/thread_context.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/op_info.h"

namespace argosy::torch_hooks {

namespace {

constexpr std::string_view kAten = "aten::";

struct CastsOfThread {
  std::shared_ptr<const OpCasts> casts;
};

// Inside of an op that autocast has cast, autocast is off. Kernels, which call
// ops below autograd, expect the types that they have chosen.
bool casts_here() {
  return at::autocast::is_cpu_enabled() &&
      (c10::InferenceMode::is_enabled() ||
       !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradCPU));
}

at::Tensor cast(at::ScalarType type, const at::Tensor& tensor) {
  return tensor.defined() ? at::autocast::cached_cast(type, tensor, at::kCPU)
                          : tensor;
}

void cast_arguments(CaughtOp& caught, at::ScalarType type) {
  c10::IValue* const arguments = caught.arguments();
  for (std::size_t i = 0; i < caught.schema().arguments().size(); ++i) {
    c10::IValue& value = arguments[i];
    if (value.isTensor()) {
      value = cast(type, value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors = value.toTensorVector();
      for (at::Tensor& each : tensors) {
        each = cast(type, each);
      }
      value = std::move(tensors);
    }
  }
}

void cast_listed(CaughtOp& caught, c10::function_ref<void()> next) {
  const auto& casts = current_op_casts();
  const auto to =
      casts != nullptr && casts_here() ? casts->of(caught.op()) : std::nullopt;
  if (!to) {
    next();
    return;
  }
  cast_arguments(
      caught,
      *to == OpCasts::To::kFloat ? at::kFloat
                                 : at::autocast::get_autocast_cpu_dtype());
  // As LibTorch's own kernels of autocast do: off for this op and those that it
  // calls.
  const c10::impl::ExcludeDispatchKeyGuard off(c10::DispatchKey::AutocastCPU);
  caught.skip(c10::DispatchKey::AutocastCPU);
  next();
}

// Nullopt for a name that has kernels only.
std::optional<c10::OperatorHandle> find_schema(
    c10::Dispatcher& dispatcher, const c10::OperatorName& name) {
  const auto found = dispatcher.findSchema(name);
  return found ? std::optional(*found) : std::nullopt;
}

} // namespace

OpCasts::OpCasts(Names names) : names_(std::move(names)) {
  install_interceptor(
      InterceptOrder::kCast, "lists of ops for AutoCast", cast_listed);
  std::set<std::string> found;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& each : dispatcher.getAllOpNames()) {
    const auto known = each.name.starts_with(kAten)
        ? names_.find(each.name.substr(kAten.size()))
        : names_.end();
    const auto op =
        known == names_.end() ? std::nullopt : find_schema(dispatcher, each);
    if (op && !op_info(*op).writes) {
      found.insert(known->first);
      ops_.emplace(&op->schema(), known->second);
    }
  }
  std::string text;
  for (const auto& [name, to] : names_) {
    ARGOSY_CHECK(
        found.count(name) > 0,
        "[optim.autocast] LibTorch has no op {} that returns a new tensor",
        name);
    text += name + (to == To::kFloat ? "-" : "+");
  }
  fingerprint_ = static_cast<std::int64_t>(std::hash<std::string>()(text) >> 1);
}

std::optional<OpCasts::To> OpCasts::of(const c10::OperatorHandle& op) const {
  const auto found = ops_.find(&op.schema());
  return found == ops_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<OpCasts::To> OpCasts::of(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> op_names() {
  std::set<std::string> names;
  for (const c10::OperatorName& each :
       c10::Dispatcher::singleton().getAllOpNames()) {
    if (each.name.starts_with(kAten)) {
      names.insert(each.name.substr(kAten.size()));
    }
  }
  return {names.begin(), names.end()};
}

const std::shared_ptr<const OpCasts>& current_op_casts() {
  return of_thread<CastsOfThread>().casts;
}

void set_op_casts(std::shared_ptr<const OpCasts> casts) {
  if (casts != nullptr) {
    catch_ops_of_thread(OpHook::kIntercept, true);
  }
  of_thread<CastsOfThread>().casts = std::move(casts);
}

} // namespace argosy::torch_hooks
