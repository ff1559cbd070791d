#include "argosy/world/sources/json_file.h"

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/json.h"

namespace argosy::world {

nlohmann::json read_json_file(
    const std::string& path, const std::string& variable) {
  const std::string where = str("[world.adopt] ", variable, "=", path);
  const auto text = read_file(path);
  ARGOSY_CHECK(text, where, ": no such file");
  return parse_json(*text, where);
}

} // namespace argosy::world
