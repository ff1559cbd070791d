#pragma once

#include <memory>

namespace at {
struct Generator;
}

namespace argosy::torch_hooks {

// While it lives, random ops of the calling thread that name no generator draw
// from this one, also those inside of modules and of the ops that they call,
// but not those on wrappers (DTensors draw from numbers of their own). Scopes
// nest; the thread that made one ends it. Throws InvalidArgument when the hook
// `intercept` is switched off.
class GeneratorScope {
 public:
  explicit GeneratorScope(const at::Generator& generator);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

  // The generator of the calling thread's innermost scope, or null.
  static const at::Generator* current();

 private:
  const std::unique_ptr<at::Generator> generator_;
  const at::Generator* const outer_;
  const bool was_caught_;
};

} // namespace argosy::torch_hooks
