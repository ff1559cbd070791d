#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "argosy/comm/backend.h"

namespace c10d {
class ProcessGroup;
class Store;
} // namespace c10d

namespace argosy::comm {

// A backend over any c10d process group: the way to hosts that share no memory,
// and to what LibTorch was built with. The group only moves bytes; reductions
// are done here, in rank order, so they work for every type and give the same
// bits as the other backends.
std::unique_ptr<Backend> make_c10d_backend(
    std::string group_name, c10::intrusive_ptr<c10d::ProcessGroup> group);

// c10d's Gloo group over TCP, for a store that all members share. Each rank
// listens on the address of the interface that it reaches the others by.
std::unique_ptr<Backend> make_c10d_gloo_backend(
    std::string group_name,
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    bool one_host,
    Deadline deadline);

} // namespace argosy::comm
