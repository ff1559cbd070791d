#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace argosy {

// Environment variables as a value. Code that depends on the environment takes
// one, so that it is a pure function and testable without processes.
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

  // Returns the value; nullopt if unset. An empty value counts as unset, as job
  // scripts mean it by `RANK= ./train`.
  std::optional<std::string> find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name).has_value(); }
  std::string get(std::string_view name, std::string_view fallback) const;

  // Returns the value as an integer in [lowest, highest]; nullopt if unset.
  // Throws InvalidArgument, naming the variable.
  std::optional<long long> find_int(
      std::string_view name,
      long long lowest,
      long long highest = 2147483647) const;

  // Accepts 1/0, true/false, yes/no, on/off; nullopt if unset. Throws
  // InvalidArgument, naming the variable.
  std::optional<bool> find_bool(std::string_view name) const;

  // In seconds; accepts "30", "500ms", "2m". Throws InvalidArgument likewise.
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
