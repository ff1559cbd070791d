#include "argosy/world/sources/json_at.h"

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/json.h"
#include "argosy/common/text.h"

namespace argosy::world {

bool JsonAt::has(const std::string& key) const {
  return value_.is_object() && value_.contains(key);
}

JsonAt JsonAt::at(const std::string& key) const {
  if (!value_.is_object()) {
    refuse("an object");
  }
  const auto found = value_.find(key);
  ARGOSY_CHECK(
      found != value_.end(), "{}: {}/{} is missing", where_, path_, key);
  return {*found, where_, str(path_, "/", key)};
}

std::vector<JsonAt> JsonAt::items() const {
  if (!value_.is_array()) {
    refuse("a list");
  }
  std::vector<JsonAt> all;
  for (std::size_t i = 0; i < value_.size(); ++i) {
    all.emplace_back(value_[i], where_, str(path_, "/", i));
  }
  return all;
}

// Accepts integers, too: tools write ids as strings or as numbers.
std::string JsonAt::text() const {
  if (value_.is_string()) {
    return value_.get<std::string>();
  }
  if (!value_.is_number_integer()) {
    refuse("a string");
  }
  return value_.dump();
}

int JsonAt::integer() const {
  const auto number = parse_int(text());
  if (!number || *number < 0 || *number > 2147483647) {
    refuse("an integer >= 0");
  }
  return static_cast<int>(*number);
}

void JsonAt::refuse(const std::string& expected) const {
  std::string value = value_.dump();
  if (value.size() > 80) {
    value = value.substr(0, 77) + "...";
  }
  throw InvalidArgument(str_format(
      "{}: {} is {}, expected {}",
      where_,
      path_.empty() ? "/" : path_,
      value,
      expected));
}

nlohmann::json read_json_file(
    const std::string& path, const std::string& variable) {
  const std::string where = str("[world.adopt] ", variable, "=", path);
  const auto text = read_file(path);
  ARGOSY_CHECK(text, "{}: no such file", where);
  return parse_json(*text, where);
}

} // namespace argosy::world
