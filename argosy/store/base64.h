#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace argosy::store {

// Standard alphabet, with padding.
std::string base64_encode(std::string_view bytes);

// Returns nullopt if `text` is not padded base64.
std::optional<std::string> base64_decode(std::string_view text);

} // namespace argosy::store
