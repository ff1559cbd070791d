#include "argosy/common/json.h"

#include <nlohmann/json.hpp>

#include <set>
#include <vector>

#include "argosy/common/error.h"

namespace argosy {

using nlohmann::json;

namespace {

// Printing and copying a document call themselves for each level.
constexpr int kMostLevels = 500;

// Tracks the keys of all open objects to detect duplicates.
class KeyWatch {
 public:
  explicit KeyWatch(std::string where) : where_(std::move(where)) {}

  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    ARGOSY_CHECK(
        depth <= kMostLevels,
        "{}: lists or objects in more than {} levels",
        where_,
        kMostLevels);
    if (event == json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == json::parse_event_t::key) {
      const std::string key = parsed.get<std::string>();
      ARGOSY_CHECK(
          open_.back().insert(key).second,
          "{}: the key \"{}\" is there twice in one object",
          where_,
          key);
    }
    return true;
  }

 private:
  std::string where_;
  std::vector<std::set<std::string>> open_;
};

} // namespace

// nlohmann::json silently keeps one of two equal keys, which would hide a
// mistake in a file that a person wrote; hence KeyWatch.
json parse_json(std::string_view text, const std::string& where) {
  try {
    return json::parse(text, KeyWatch(where));
  } catch (const json::parse_error& error) {
    throw InvalidArgument(
        str(where, ": not JSON, at byte ", error.byte, " of ", text.size()));
  } catch (const json::exception& error) { // a number that is too large
    throw InvalidArgument(str(where, ": ", error.what()));
  }
}

} // namespace argosy
