#pragma once

#include <string>
#include <string_view>

#include "argosy/comm/flight/record.h"

namespace argosy::comm::flight {

std::string to_json(const Record& record);

// Throws InvalidArgument whose text starts with `what`, such as a file name.
Record parse_record(std::string_view json, std::string_view what);

} // namespace argosy::comm::flight
