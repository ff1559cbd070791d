#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace argosy::store {

// Returns the value of a counter after add(amount), given its current text
// (nullopt: absent). Throws StoreError when the text is not a decimal number or
// the sum overflows 63 bits.
std::int64_t counter_sum(
    const std::string& key,
    const std::optional<std::string>& held,
    std::int64_t amount);

} // namespace argosy::store
