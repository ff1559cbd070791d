#pragma once

#include <memory>
#include <vector>

#include "argosy/comm/flight/black_box.h"

namespace argosy {
class World;
}
namespace argosy::comm {
struct Op;
}

// The recorder of a world. Not installed.
namespace argosy::comm::flight {

// Made by the first call. ARGOSY_FLIGHT_DIR names its folder.
std::shared_ptr<BlackBox> black_box_of(World& world);

// Operations that are carried out as one are noted as one, of all their
// tensors. `ranks` are the global ranks of the group.
Call call_of(const std::vector<Op>& ops, const std::vector<int>& ranks);

} // namespace argosy::comm::flight
