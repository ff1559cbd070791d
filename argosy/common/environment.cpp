#include "argosy/common/environment.h"

#include <unistd.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy {

// A copy, so that what a caller has read does not change under it when another
// part of the program calls setenv().
Environment Environment::of_process() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.set(
          std::string(text.substr(0, equals)),
          std::string(text.substr(equals + 1)));
    }
  }
  return environment;
}

std::optional<std::string> Environment::find(std::string_view name) const {
  const auto found = variables_.find(std::string(name));
  if (found == variables_.end() || found->second.empty()) {
    return std::nullopt;
  }
  return found->second;
}

std::string Environment::get(
    std::string_view name, std::string_view fallback) const {
  return find(name).value_or(std::string(fallback));
}

std::optional<long long> Environment::find_int(
    std::string_view name, long long lowest, long long highest) const {
  const auto text = find(name);
  if (!text) {
    return std::nullopt;
  }
  const auto value = parse_int(trim(*text));
  ARGOSY_CHECK(
      value && *value >= lowest && *value <= highest,
      "[env] {}={} is not an integer {}",
      name,
      *text,
      highest == 2147483647 ? str(">= ", lowest)
                            : str("in [", lowest, ", ", highest, "]"));
  return value;
}

std::optional<bool> Environment::find_bool(std::string_view name) const {
  const auto text = find(name);
  if (!text) {
    return std::nullopt;
  }
  std::string lower = *text;
  std::transform(
      lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
      });
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (lower == yes) {
      return true;
    }
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (lower == no) {
      return false;
    }
  }
  ARGOSY_CHECK(
      false, "[env] {}={} is not one of 1, 0, true, false", name, *text);
  return std::nullopt;
}

std::optional<double> Environment::find_seconds(std::string_view name) const {
  const auto text = find(name);
  if (!text) {
    return std::nullopt;
  }
  const auto seconds = parse_seconds(*text);
  ARGOSY_CHECK(
      seconds && *seconds > 0,
      "[env] {}={} is not a time above zero such as 30, 500ms or 2m",
      name,
      *text);
  return seconds;
}

void Environment::set(std::string name, std::string value) {
  variables_[std::move(name)] = std::move(value);
}

} // namespace argosy
