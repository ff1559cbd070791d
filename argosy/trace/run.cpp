#include "argosy/trace/run.h"

#include <c10/core/GradMode.h>

#include <optional>
#include <utility>

#include "argosy/torch_hooks/thread_generator.h"
#include "argosy/trace/modes.h"

namespace argosy::trace {

namespace {

std::size_t at(int number) {
  return static_cast<std::size_t>(number);
}

// The thread runs under these while it lives.
class ModesScope {
 public:
  explicit ModesScope(const Modes& modes) : grad_(modes.grad && is_grad()) {
    if (modes.autocast) {
      autocast_ = torch_hooks::Autocast();
      modes.autocast->set();
    }
    if (modes.generator) {
      generator_.emplace(*modes.generator);
    }
  }
  ~ModesScope() {
    if (autocast_) {
      autocast_->set();
    }
  }
  ModesScope(const ModesScope&) = delete;
  ModesScope& operator=(const ModesScope&) = delete;

 private:
  static bool is_grad() { return c10::GradMode::is_enabled(); }

  const c10::AutoGradMode grad_;
  std::optional<torch_hooks::Autocast> autocast_; // that of before
  std::optional<torch_hooks::GeneratorScope> generator_;
};

} // namespace

void Run::set(int value, at::Tensor tensor) {
  values_[at(value)] = std::move(tensor);
}

const at::Tensor& Run::get(int value) const {
  const auto held = program_.held.find(value);
  return held == program_.held.end() ? values_[at(value)] : held->second;
}

void Run::release(int value) {
  values_[at(value)].reset();
}

void Run::run(int node) {
  const Call& call = program_.calls[at(node)];
  std::optional<ModesScope> modes;
  if (call.modes) {
    modes.emplace(*call.modes);
  }
  carry_out(call);
}

void Run::carry_out(const Call& call) {
  torch::jit::Stack stack;
  stack.reserve(call.arguments.size());
  for (const Argument& argument : call.arguments) {
    stack.push_back(value_of(argument));
  }
  call.op.callBoxed(stack);
  auto result = call.results.begin();
  const auto take = [&](const c10::IValue& returned) {
    if (*result >= 0) {
      set(*result, returned.toTensor());
    }
    ++result;
  };
  for (const c10::IValue& returned : stack) {
    if (returned.isTensorList()) {
      for (const c10::IValue& each : returned.toListRef()) {
        take(each);
      }
    } else {
      take(returned);
    }
  }
}

c10::IValue Run::value_of(const Argument& argument) const {
  switch (argument.kind) {
    case Argument::Kind::kPlain:
      return argument.plain;
    case Argument::Kind::kTensor:
      return get(argument.values[0]);
    case Argument::Kind::kList:
      return list_of<at::Tensor>(argument);
    case Argument::Kind::kOptionalList:
      return list_of<c10::optional<at::Tensor>>(argument);
  }
  return {};
}

template <typename Element>
c10::IValue Run::list_of(const Argument& argument) const {
  c10::List<Element> list;
  list.reserve(argument.values.size());
  for (const int value : argument.values) {
    list.push_back(value < 0 ? Element() : Element(get(value)));
  }
  return list;
}

} // namespace argosy::trace
