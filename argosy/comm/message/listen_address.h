#pragma once

#include <string>

#include "argosy/comm/backend/gather_strings.h"

namespace argosy::comm::message {

// The address on which this member should listen for the others: the loopback
// interface if all are in one network namespace, else that of the interface
// that faces the first member in another. All members must call it.
std::string listen_address(const GatherStrings& gather_strings);

} // namespace argosy::comm::message
