#pragma once

#include <functional>
#include <string>

namespace argosy::training {

// Runs what all ranks must do in each step. If one of them does not, the error
// also says what samplers know of ranks with fewer batches, and `advice`: what
// to do about those. Throws what `body` throws.
void in_each_step(const std::function<void()>& body, const std::string& advice);

} // namespace argosy::training
