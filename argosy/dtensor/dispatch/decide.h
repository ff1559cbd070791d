#pragma once

#include <memory>

#include "argosy/dtensor/tensor/decision_cache.h"

namespace c10 {
class OperatorHandle;
}

namespace argosy::dtensor {

class Frame;

// How this call runs: from the cache, or by asking the op's rule. Throws
// InvalidArgument for what cannot run at all.
std::shared_ptr<const Decision> decide(
    const c10::OperatorHandle& op, const Frame& frame);

} // namespace argosy::dtensor
