#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace argosy::fleet {

// Turns the text format of protocol buffers, which Paddle's save_to_prototxt()
// writes, into JSON: messages become objects, repeated fields lists. A field
// that is there once becomes a list if `is_list` says so for its path
// ("amp_configs.custom_white_list"); names of enums become strings. Throws
// InvalidArgument, with `where` and the line, for other text.
std::string prototxt_to_json(
    std::string_view text,
    const std::string& where,
    const std::function<bool(const std::string& path)>& is_list);

} // namespace argosy::fleet
