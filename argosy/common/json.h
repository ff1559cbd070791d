#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace argosy {

// The JSON document in a text. Throws InvalidArgument that starts with `where`
// when it is not JSON, and when an object has a key twice, of which the parser
// would keep the last without a word.
nlohmann::json parse_json(std::string_view text, const std::string& where);

} // namespace argosy
