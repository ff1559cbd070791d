#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace argosy::world {

// The JSON document in `path`, the value of `variable`. Throws InvalidArgument
// that names both when there is no such file, when it is not JSON, and when an
// object has a key twice.
nlohmann::json read_json_file(
    const std::string& path, const std::string& variable);

} // namespace argosy::world
