#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace argosy::ps {

// The fields of a JSON object, read one by one: those that nobody reads are
// unknown. All throw InvalidArgument with the path of the field.
class JsonFields {
 public:
  // `where` is the path of the object: "sparse_table_configs.emb". Throws
  // unless `object` is an object.
  JsonFields(const nlohmann::json& object, std::string where);

  // Leave `value` as it is if there is no such field.
  void read(std::string_view name, bool& value);
  void read(std::string_view name, int& value);
  void read(std::string_view name, std::uint64_t& value);
  void read(std::string_view name, float& value);
  void read(std::string_view name, std::string& value);
  void read(std::string_view name, std::vector<float>& value);

  // The value of a field; nullptr if there is none.
  const nlohmann::json* find(std::string_view name);

  // Refuses fields that were not read, naming the nearest and all known ones.
  void finish() const;

  std::string path(std::string_view name) const;

 private:
  [[noreturn]] void refuse(std::string_view name, std::string_view expected);

  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

} // namespace argosy::ps
