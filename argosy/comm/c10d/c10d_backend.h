#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/backend/backend.h"

namespace c10d {
class ProcessGroup;
class Store;
} // namespace c10d

namespace argosy::comm {

// A backend over any c10d process group that can send and receive, for the
// transports that LibTorch was built with. The process group only moves bytes
// and message/ does the rest, so all element types work and the bits are those
// of other backends. Members learn of failures through `store`, if there is
// one. `global_ranks` are those of the members, for errors; empty: 0, 1, ...
std::unique_ptr<Backend> make_c10d_backend(
    std::string group_name,
    c10::intrusive_ptr<c10d::ProcessGroup> group,
    const c10::intrusive_ptr<c10d::Store>& store = {},
    std::vector<int> global_ranks = {});

// The same over c10d's Gloo process group on TCP. All members must call it with
// the same store. Each rank listens on the address by which the others reach
// it.
std::unique_ptr<Backend> make_c10d_gloo_backend(
    std::string group_name,
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    Deadline deadline,
    std::vector<int> global_ranks = {});

} // namespace argosy::comm
