#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace argosy::world {

// A place in a JSON document that knows its path, so that errors can name it.
// Refers to the document, which must outlive it.
class JsonAt {
 public:
  // `where` begins every error: the variable and the file.
  JsonAt(const nlohmann::json& value, std::string where, std::string path = "")
      : value_(value), where_(std::move(where)), path_(std::move(path)) {}

  bool has(const std::string& key) const;

  // All throw InvalidArgument when the value is not of that kind.
  JsonAt at(const std::string& key) const;
  std::vector<JsonAt> items() const;
  std::string text() const; // a string, or a number as text
  int integer() const;      // not negative; a number or a string that is one

  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  const nlohmann::json& value_;
  std::string where_;
  std::string path_; // "/server_list/0/device"
};

} // namespace argosy::world
