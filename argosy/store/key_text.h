#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/deadline.h"

// How error messages show keys, which may hold any bytes.
namespace argosy::store {

// In single quotes; other than printable ASCII as \x00, long ones cut.
std::string quoted_bytes(std::string_view bytes);

// "[store.wait] 2 keys are missing after 300 ms: 'a', 'b'".
std::string missing_text(
    const std::vector<std::string>& missing, const Deadline& deadline);

} // namespace argosy::store
