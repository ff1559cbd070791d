#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "argosy/comm/backend/backend.h"

namespace c10d {
class ProcessGroup;
class Store;
} // namespace c10d

namespace argosy::comm {

// A backend over any c10d process group that can send and receive: the way to
// what LibTorch was built with. The group only moves bytes; the rest is that of
// message/, so it works for every type and gives the same bits as the others.
// Members learn of each other's failures through `store`, if they have one.
std::unique_ptr<Backend> make_c10d_backend(
    std::string group_name,
    c10::intrusive_ptr<c10d::ProcessGroup> group,
    const c10::intrusive_ptr<c10d::Store>& store = {});

// c10d's Gloo group over TCP, for a store that all members share. Each rank
// listens on the address by which the others reach it.
std::unique_ptr<Backend> make_c10d_gloo_backend(
    std::string group_name,
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    Deadline deadline);

} // namespace argosy::comm
