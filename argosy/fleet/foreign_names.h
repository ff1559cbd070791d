#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The names that Paddle's DistributedStrategy has and ours does not, and what
// becomes of them. docs/coming-from-paddle.md lists them. No torch header.
namespace argosy::fleet {

// A name without a counterpart. Its values fall in two: those that ask for
// nothing, or for what happens anyway, are accepted; others are refused.
struct ForeignName {
  const char* path;
  const char* harmless; // a JSON list of values; "*": all
  const char* instead;  // what to write, or why there is nothing to write
};

const std::vector<ForeignName>& foreign_names();

// A name that means the same as a setting of ours.
struct Alias {
  const char* path;
  const char* ours;
};

const std::vector<Alias>& aliases();

std::optional<std::string> alias_of(std::string_view path);

// Null if `path` is neither a foreign name nor inside of one that is a section.
const ForeignName* foreign_name(std::string_view path);

// Whether a foreign name or an alias is inside of `path`.
bool is_foreign_section(std::string_view path);

// The names directly inside of a section, given as
// "hybrid_configs.mp_configs.".
std::vector<std::string> foreign_names_in(std::string_view prefix);

bool asks_for_nothing(const ForeignName& name, const nlohmann::json& value);

// For names that no program has but people expect, such as tp_degree.
std::optional<std::string> hint_for(std::string_view path);

} // namespace argosy::fleet
