#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <optional>

#include "argosy/torch_hooks/autocast.h"

namespace argosy::trace {

// The settings of the thread that an op ran under, where they differ from those
// of the whole recording.
struct Modes {
  bool grad = true;
  std::optional<torch_hooks::Autocast> autocast;
  std::optional<at::Generator> generator; // of a GeneratorScope
};

// The settings of the calling thread; null if they are grad mode and these.
// `generator` is that of a GeneratorScope, or null.
std::shared_ptr<const Modes> current_modes(
    const torch_hooks::Autocast& autocast, const at::Generator* generator);

} // namespace argosy::trace
