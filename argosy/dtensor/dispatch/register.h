#pragma once

namespace argosy::dtensor {

// Makes LibTorch bring the ops on DTensors to execute(), or to kernels of
// theirs. What makes a DTensor calls it first. Idempotent and thread-safe.
// Throws InvalidArgument when the hook `dtensor` is switched off.
void install_dispatch();

} // namespace argosy::dtensor
