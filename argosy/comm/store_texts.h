#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>

#include "argosy/comm/texts.h"

namespace c10d {
class Store;
}

namespace argosy::comm {

// Gathers texts among `size` ranks through a store, under keys that start with
// `prefix`. Each rank makes one, and calls it as often as the others.
GatherTexts gather_through(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::string& prefix,
    int rank,
    int size);

} // namespace argosy::comm
