#pragma once

#include <ATen/core/Generator.h>

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

} // namespace argosy::trace
