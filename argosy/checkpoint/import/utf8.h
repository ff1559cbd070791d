#pragma once

#include <string_view>

namespace argosy::checkpoint {

// Whether the bytes are a text that JSON can hold: no overlong forms, no
// surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view bytes);

} // namespace argosy::checkpoint
