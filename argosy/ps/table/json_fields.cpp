#include "argosy/ps/table/json_fields.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::ps {

JsonFields::JsonFields(const nlohmann::json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  ARGOSY_CHECK(
      object.is_object(),
      "[ps.config] {} is {}, expected an object",
      where_,
      object.dump());
}

std::string JsonFields::path(std::string_view name) const {
  return str(where_, ".", name);
}

const nlohmann::json* JsonFields::find(std::string_view name) {
  known_.emplace_back(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() ? nullptr : &*found;
}

void JsonFields::refuse(std::string_view name, std::string_view expected) {
  throw InvalidArgument(
      str("[ps.config] ",
          path(name),
          " is ",
          object_.at(std::string(name)).dump(),
          ", expected ",
          expected));
}

void JsonFields::read(std::string_view name, bool& value) {
  if (const auto* found = find(name)) {
    if (!found->is_boolean()) {
      refuse(name, "true or false");
    }
    value = found->get<bool>();
  }
}

void JsonFields::read(std::string_view name, int& value) {
  if (const auto* found = find(name)) {
    const bool fits = found->is_number_integer() &&
        found->get<long long>() == found->get<int>();
    if (!fits) {
      refuse(name, "an integer");
    }
    value = found->get<int>();
  }
}

void JsonFields::read(std::string_view name, std::uint64_t& value) {
  if (const auto* found = find(name)) {
    if (!found->is_number_unsigned()) {
      refuse(name, "an integer of at least 0");
    }
    value = found->get<std::uint64_t>();
  }
}

void JsonFields::read(std::string_view name, float& value) {
  if (const auto* found = find(name)) {
    if (!found->is_number()) {
      refuse(name, "a number");
    }
    value = found->get<float>();
  }
}

void JsonFields::read(std::string_view name, std::string& value) {
  if (const auto* found = find(name)) {
    if (!found->is_string()) {
      refuse(name, "a text");
    }
    value = found->get<std::string>();
  }
}

void JsonFields::read(std::string_view name, std::vector<float>& value) {
  if (const auto* found = find(name)) {
    const bool numbers = found->is_array() &&
        std::all_of(found->begin(), found->end(), [](const auto& item) {
                           return item.is_number();
                         });
    if (!numbers) {
      refuse(name, "a list of numbers");
    }
    value = found->get<std::vector<float>>();
  }
}

void JsonFields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      const auto close = nearest(name, known_);
      throw InvalidArgument(
          str("[ps.config] ",
              where_,
              " has no field '",
              name,
              "'",
              close ? " (do you mean " + *close + "?)" : "",
              ", expected ",
              join(known_, ", ")));
    }
  }
}

} // namespace argosy::ps
