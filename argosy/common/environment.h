#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace argosy {

// Environment variables as a value. Whatever decides by the environment takes
// one, so that it is a pure function which tests call without processes.
class Environment {
 public:
  Environment() = default;
  Environment(std::map<std::string, std::string> variables)
      : variables_(std::move(variables)) {}

  Environment(std::initializer_list<std::pair<const std::string, std::string>>
                  variables)
      : variables_(variables) {}

  // A copy of the process's environment.
  static Environment of_process();

  // The value, or nothing when unset. An empty value counts as unset: that is
  // what job scripts mean by `RANK= ./train`.
  std::optional<std::string> find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name).has_value(); }
  std::string get(std::string_view name, std::string_view fallback) const;

  // The value as an integer in [lowest, highest]; nothing when unset. Throws
  // InvalidArgument that names the variable.
  std::optional<long long> find_int(
      std::string_view name,
      long long lowest,
      long long highest = 2147483647) const;

  // 1/0, true/false, yes/no, on/off; nothing when unset. Throws
  // InvalidArgument that names the variable.
  std::optional<bool> find_bool(std::string_view name) const;

  // Seconds: "30", "500ms", "2m". Throws InvalidArgument, as above.
  std::optional<double> find_seconds(std::string_view name) const;

  void set(std::string name, std::string value);
  void unset(const std::string& name) { variables_.erase(name); }

  const std::map<std::string, std::string>& variables() const {
    return variables_;
  }

  bool operator==(const Environment&) const = default;

 private:
  std::map<std::string, std::string> variables_;
};

} // namespace argosy
