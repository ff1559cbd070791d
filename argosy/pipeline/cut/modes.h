#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "argosy/training/autocast.h"

// Not installed.
namespace argosy::pipeline {

// What of the thread an op ran under, where that differs from what the whole
// forward ran under.
struct Modes {
  bool grad = true;
  std::optional<training::Autocast> autocast;
  std::optional<at::Generator> generator; // of an RngStatesTracker::Scope
};

} // namespace argosy::pipeline
