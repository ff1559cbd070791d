#pragma once

#include <functional>

namespace argosy::training {

// Call it inside of backward, from a hook. Calls `on_end` on this thread when
// that backward has ended; what it throws comes out of backward(). If backward
// or `on_end` throws, calls `on_failure` instead, before the exception reaches
// the caller of backward(); `on_failure` must not throw.
void at_end_of_backward(
    std::function<void()> on_end, std::function<void()> on_failure);

} // namespace argosy::training
