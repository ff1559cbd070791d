#pragma once

#include <string>

#include "argosy/fleet/setting.h"

namespace argosy::fleet {

// A value as JSON has it, on one line.
std::string json_text(const Value& value);

} // namespace argosy::fleet
