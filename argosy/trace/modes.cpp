#include "argosy/trace/modes.h"

#include <c10/core/GradMode.h>

#include <utility>

#include "argosy/torch_hooks/thread_generator.h"

namespace argosy::trace {

std::shared_ptr<const Modes> current_modes(
    const torch_hooks::Autocast& autocast, const at::Generator* generator) {
  const torch_hooks::Autocast now;
  const at::Generator* drawn = torch_hooks::GeneratorScope::current();
  const bool grad = c10::GradMode::is_enabled();
  // The usual case: null saves a run the work of setting the same modes again.
  if (grad && now == autocast && drawn == generator) {
    return nullptr;
  }
  Modes modes{.grad = grad};
  if (now != autocast) {
    modes.autocast = now;
  }
  if (drawn != nullptr && drawn != generator) {
    modes.generator = *drawn;
  }
  return std::make_shared<Modes>(std::move(modes));
}

} // namespace argosy::trace
