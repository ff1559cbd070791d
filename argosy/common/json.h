#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace argosy {

// Parses a JSON document. Throws InvalidArgument, starting with `where`, when
// the text is not JSON, has more than 500 levels, or an object has a duplicate
// key, which the parser would silently accept.
nlohmann::json parse_json(std::string_view text, const std::string& where);

} // namespace argosy
