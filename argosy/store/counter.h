#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace argosy::store {

// What a key that holds `held` (nothing: absent) holds after add(amount).
// Throws StoreError when that is no decimal number or the sum has over 63 bits.
std::int64_t counter_sum(
    const std::string& key,
    const std::optional<std::string>& held,
    std::int64_t amount);

} // namespace argosy::store
