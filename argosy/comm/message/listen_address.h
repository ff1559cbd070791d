#pragma once

#include <string>

#include "argosy/comm/backend/gather_strings.h"

namespace argosy::comm::message {

// The address on which this member should listen for the others. All members
// call it. The loopback when all are in one network namespace; else that of the
// interface that faces the first member who is in another.
std::string listen_address(const GatherStrings& gather_strings);

} // namespace argosy::comm::message
