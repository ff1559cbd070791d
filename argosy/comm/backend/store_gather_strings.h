#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>

#include "argosy/comm/backend/gather_strings.h"

namespace c10d {
class Store;
}

namespace argosy::comm {

// Gathers strings among `size` ranks through a store, under keys that start
// with `prefix`. Blocks until all ranks have called it.
GatherStrings gather_strings_through(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::string& prefix,
    int rank,
    int size);

} // namespace argosy::comm
