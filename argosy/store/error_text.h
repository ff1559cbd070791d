#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/deadline.h"

// Text of error messages. Keys may contain any bytes.
namespace argosy::store {

// Quotes bytes; escapes what is not printable ASCII as \x00, truncates long
// ones.
std::string quoted_bytes(std::string_view bytes);

// Returns "[store.wait] 2 keys are missing after 300 ms: 'a', 'b'".
std::string missing_text(
    const std::vector<std::string>& missing, const Deadline& deadline);

} // namespace argosy::store
