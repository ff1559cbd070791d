#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "argosy/training/autocast.h"

// Not installed.
namespace argosy::pipeline {

// Thread-local modes that an op ran under, where they differ from those of the
// whole forward.
struct Modes {
  bool grad = true;
  std::optional<training::Autocast> autocast;
  std::optional<at::Generator> generator; // of an RngStatesTracker::Scope
};

} // namespace argosy::pipeline
