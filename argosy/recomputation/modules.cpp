#include "argosy/recomputation/modules.h"

#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "argosy/comm/operation/observer.h"
#include "argosy/common/error.h"
#include "argosy/common/pattern.h"
#include "argosy/common/thread_context.h"
#include "argosy/recomputation/recorded_segment.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/op_info.h"

namespace argosy {

namespace {

using torch_hooks::CaughtOp;
constexpr auto kSeenOps = torch_hooks::OpHook::kIntercept;

using TensorId = const c10::TensorImpl*;
constexpr int kOther = -1; // a parameter of no named module

bool is_inside_of(const std::string& name, const std::string& module) {
  return name.size() > module.size() && name.starts_with(module) &&
      name[module.size()] == '.';
}

// The modules with parameters that match.
std::vector<std::string> names_that_match(
    const torch::nn::Module& model, const std::string& pattern) {
  const Pattern wanted(pattern, "[recomputation.modules]");
  std::vector<std::string> names;
  for (const auto& each : model.named_modules("", /*include_self=*/false)) {
    if (wanted.matches(each.key()) && !each.value()->parameters().empty()) {
      names.push_back(each.key());
    }
  }
  return names;
}

// The outermost modules that match.
std::vector<std::string> matching_names(
    const torch::nn::Module& model, const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) {
    const auto found = names_that_match(model, pattern);
    ARGOSY_CHECK(
        !found.empty(),
        "[recomputation.modules] no module with parameters matches \"{}\"",
        pattern);
    names.insert(names.end(), found.begin(), found.end());
  }
  std::ranges::sort(names);
  const auto all = names;
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::any_of(
        all, [&](const auto& other) { return is_inside_of(name, other); });
  });
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

} // namespace

// What is known before forward runs.
struct RecomputedModules::Plan {
  RecomputeOptions options;
  std::vector<std::string> names;
  std::unordered_map<TensorId, int> modules; // by parameter
  std::unordered_set<TensorId> states;       // parameters and buffers
};

// One forward: which segment is open. The thread's interceptor and collectives
// report to it.
class RecomputedModules::Scope::Impl final : public comm::ThreadObserver {
 public:
  explicit Impl(std::shared_ptr<const Plan> plan);
  ~Impl() override;

  static Impl*& current(); // of the calling thread; null outside of a scope
  void on_op(CaughtOp& caught, c10::function_ref<void()> run);

  // A collective writes to memory without an op. What it is given was made
  // before, what it gives comes from outside: a boundary.
  Token on_issue(const comm::Call&, const std::vector<int>&) override {
    if (!is_within_op_) {
      close();
    }
    return 0;
  }

 private:
  struct Current {
    Impl* forward = nullptr;
  };

  std::optional<int> module_of(CaughtOp& caught) const;
  void follow(CaughtOp& caught);
  void close() { segment_.reset(); }

  const std::shared_ptr<const Plan> plan_;
  const bool was_caught_;
  Impl* const outer_;
  int module_ = kOther; // where the forward is
  std::unique_ptr<recomputation::RecordedSegment> segment_;
  bool is_within_op_ = false;
};

RecomputedModules::Scope::Impl*& RecomputedModules::Scope::Impl::current() {
  return of_thread<Current>().forward;
}

RecomputedModules::Scope::Impl::Impl(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)),
      was_caught_([] {
        torch_hooks::install_interceptor(
            torch_hooks::InterceptOrder::kSegment,
            "recomputed modules",
            [](CaughtOp& caught, c10::function_ref<void()> next) {
              if (Impl* const forward = current()) {
                forward->on_op(caught, next);
              } else {
                next();
              }
            });
        return torch_hooks::catch_ops_of_thread(kSeenOps, true);
      }()),
      outer_(current()) {
  // Ops of a model inside of another one are seen by the inner scope alone.
  if (outer_ != nullptr) {
    outer_->close();
  }
  current() = this;
}

RecomputedModules::Scope::Impl::~Impl() {
  close();
  current() = outer_;
  torch_hooks::catch_ops_of_thread(kSeenOps, was_caught_);
}

// Of the first parameter that the op takes; nullopt if it takes none.
std::optional<int> RecomputedModules::Scope::Impl::module_of(
    CaughtOp& caught) const {
  std::optional<int> found;
  const auto look_up = [&](const c10::IValue& value) {
    if (!found && value.isTensor() && value.toTensor().defined()) {
      const auto known =
          plan_->modules.find(value.toTensor().unsafeGetTensorImpl());
      if (known != plan_->modules.end()) {
        found = known->second;
      }
    }
  };
  const auto& info = torch_hooks::op_info(caught.op());
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    const c10::IValue& value = caught.arguments()[i];
    if (info.args[i].kind == torch_hooks::OpInfo::ArgKind::Tensors &&
        !value.isNone()) {
      std::ranges::for_each(value.toListRef(), look_up);
    } else {
      look_up(value);
    }
  }
  return found;
}

// Opens and closes segments, as the next op asks for.
void RecomputedModules::Scope::Impl::follow(CaughtOp& caught) {
  ARGOSY_CHECK(
      !segment_ || segment_->is_innermost(),
      "[recomputation.modules] {} calls recompute() itself: leave it out of "
      "the names, or take recompute() out of its forward",
      plan_->names[static_cast<std::size_t>(module_)]);
  // Inside of a torch::autograd::Function, or of a NoGradGuard.
  if (!c10::GradMode::is_enabled()) {
    close();
    return;
  }
  const int module = module_of(caught).value_or(module_);
  if (module != module_) {
    close();
    module_ = module;
  }
  if (module_ != kOther && !segment_) {
    segment_ = std::make_unique<recomputation::RecordedSegment>(
        plan_->options, plan_->states);
  }
}

void RecomputedModules::Scope::Impl::on_op(
    CaughtOp& caught, c10::function_ref<void()> run) {
  if (is_within_op_) { // a part of the op that called it
    run();
    return;
  }
  follow(caught);
  const ScopedValue<bool> within(is_within_op_, true);
  if (segment_) {
    segment_->run(caught, run);
  } else {
    run();
  }
}

RecomputedModules::RecomputedModules(
    const torch::nn::Module& model,
    const std::vector<std::string>& patterns,
    RecomputeOptions options) {
  auto plan = std::make_shared<Plan>();
  plan->options = std::move(options);
  plan->names = matching_names(model, patterns);
  for (const auto& item : model.named_parameters(true)) {
    if (!item.value().defined()) {
      continue;
    }
    const auto module = std::ranges::find_if(
        plan->names,
        [&](const auto& name) { return is_inside_of(item.key(), name); });
    plan->modules.emplace(
        item.value().unsafeGetTensorImpl(),
        module == plan->names.end()
            ? kOther
            : static_cast<int>(module - plan->names.begin()));
    plan->states.insert(item.value().unsafeGetTensorImpl());
  }
  for (const at::Tensor& buffer : model.buffers(true)) {
    if (buffer.defined()) {
      plan->states.insert(buffer.unsafeGetTensorImpl());
    }
  }
  plan_ = std::move(plan);
}

bool RecomputedModules::matches(
    const torch::nn::Module& model, const std::string& pattern) {
  return !names_that_match(model, pattern).empty();
}

const std::vector<std::string>& RecomputedModules::names() const {
  return plan_->names;
}

RecomputedModules::Scope::Scope(const RecomputedModules& modules)
    : impl_(
          c10::GradMode::is_enabled() ? std::make_unique<Impl>(modules.plan_)
                                      : nullptr) {}

RecomputedModules::Scope::~Scope() = default;

} // namespace argosy
