#pragma once

namespace argosy::dtensor {

// Brings the ops of DTensors to us, where the dispatcher's fallback does not.
// The first DTensor does it; later calls do nothing. Thread-safe.
void register_dispatch();

} // namespace argosy::dtensor
