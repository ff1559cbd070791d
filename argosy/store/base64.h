#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace argosy::store {

// The standard alphabet, padded.
std::string base64_encode(std::string_view bytes);

// Nothing when `text` is not padded base64.
std::optional<std::string> base64_decode(std::string_view text);

} // namespace argosy::store
