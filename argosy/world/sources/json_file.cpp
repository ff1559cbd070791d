#include "argosy/world/sources/json_file.h"

#include <set>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy::world {

using nlohmann::json;

namespace {

// The parser keeps the last of two equal keys without a word; this watches the
// keys of every object that is open.
class KeyWatch {
 public:
  explicit KeyWatch(std::string where) : where_(std::move(where)) {}

  bool operator()(int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == json::parse_event_t::key) {
      const std::string key = parsed.get<std::string>();
      ARGOSY_CHECK(
          open_.back().insert(key).second,
          where_,
          ": the key \"",
          key,
          "\" is there twice in one object");
    }
    return true;
  }

 private:
  std::string where_;
  std::vector<std::set<std::string>> open_;
};

} // namespace

json read_json_file(const std::string& path, const std::string& variable) {
  const std::string where = str("[world.adopt] ", variable, "=", path);
  const auto text = read_file(path);
  ARGOSY_CHECK(text, where, ": no such file");
  try {
    return json::parse(*text, KeyWatch(where));
  } catch (const json::parse_error& error) {
    throw InvalidArgument(
        str(where, ": not JSON, at byte ", error.byte, " of ", text->size()));
  }
}

} // namespace argosy::world
