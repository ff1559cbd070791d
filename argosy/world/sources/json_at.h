#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace argosy::world {

// A position in a JSON document that knows its path, for error messages. Refers
// to the document, which must outlive it.
class JsonAt {
 public:
  // `where` starts every error message: the variable and the file.
  JsonAt(const nlohmann::json& value, std::string where, std::string path = "")
      : value_(value), where_(std::move(where)), path_(std::move(path)) {}

  bool has(const std::string& key) const;

  // All throw InvalidArgument when the value has another type.
  JsonAt at(const std::string& key) const;
  std::vector<JsonAt> items() const;
  std::string text() const; // a string, or a number as text
  int integer() const;      // non-negative; a number, or a string that is one

  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  const nlohmann::json& value_;
  std::string where_;
  std::string path_; // for example "/server_list/0/device"
};

// Reads the JSON file at `path`, the value of `variable`. Throws
// InvalidArgument, naming both, when the file is missing, is not JSON, or has
// duplicate keys.
nlohmann::json read_json_file(
    const std::string& path, const std::string& variable);

} // namespace argosy::world
