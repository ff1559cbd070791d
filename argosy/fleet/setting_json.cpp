#include "argosy/fleet/setting.h"

#include <nlohmann/json.hpp>

#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/json.h"
#include "argosy/common/text.h"

namespace argosy::fleet {

using nlohmann::json;

namespace {

nlohmann::ordered_json written(const Section& section) {
  auto result = nlohmann::ordered_json::object();
  for (const Entry* entry : section.entries()) {
    if (const auto* within = dynamic_cast<const Section*>(entry)) {
      result[entry->name()] = written(*within);
    } else {
      const Value& value = dynamic_cast<const AnySetting*>(entry)->value();
      std::visit([&](const auto& it) { result[entry->name()] = it; }, value);
    }
  }
  return result;
}

template <typename T>
bool is_a(const json& text) {
  if constexpr (std::is_same_v<T, bool>) {
    return text.is_boolean();
  } else if constexpr (std::is_same_v<T, int>) {
    return text.is_number_integer() &&
        std::in_range<int>(text.get<std::int64_t>());
  } else if constexpr (std::is_same_v<T, double>) {
    return text.is_number();
  } else {
    return text.is_string();
  }
}

// If the JSON value has the type of `value`, assigns it and returns true.
template <typename T>
bool read(const json& text, T& value) {
  const bool fits = is_a<T>(text);
  if (fits) {
    text.get_to(value);
  }
  return fits;
}

template <typename T>
bool read(const json& text, std::vector<T>& list) {
  list.assign(text.size(), T());
  bool fits = text.is_array();
  for (std::size_t i = 0; fits && i < list.size(); ++i) {
    fits = read(text[i], list[i]);
  }
  return fits;
}

struct Change {
  AnySetting* setting;
  Value value;
};

Change change_of(AnySetting& setting, const json& text) {
  // The default's type decides what the JSON value must be.
  Value value = setting.default_value();
  const bool fits = std::visit([&](auto& it) { return read(text, it); }, value);
  ARGOSY_CHECK(
      fits,
      "[fleet.strategy] {} is {}, expected {}",
      setting.path(),
      text.dump(),
      setting.expected());
  setting.check(value);
  return {&setting, std::move(value)};
}

// Unknown names are errors: a misspelt setting would silently keep its default.
Entry& find(Section& section, const std::string& name) {
  std::vector<std::string> names;
  for (Entry* entry : entries_of(section)) {
    if (entry->name() == name) {
      return *entry;
    }
    names.push_back(entry->name());
  }
  const std::string prefix = section.path().empty() ? "" : section.path() + '.';
  const auto meant = nearest(name, names);
  throw InvalidArgument(
      str("[fleet.strategy] there is no ",
          prefix,
          name,
          meant ? ": did you mean " + prefix + *meant + "?"
                : "; there are " + join(names, ", ")));
}

void collect(
    Section& section, const json& object, std::vector<Change>& changes) {
  ARGOSY_CHECK(
      object.is_object(),
      "[fleet.strategy] {} is {}, expected an object of settings",
      section.path().empty() ? "the document" : section.path(),
      object.dump());
  for (const auto& [name, text] : object.items()) {
    Entry& entry = find(section, name);
    if (auto* within = dynamic_cast<Section*>(&entry)) {
      collect(*within, text, changes);
    } else {
      changes.push_back(change_of(dynamic_cast<AnySetting&>(entry), text));
    }
  }
}

} // namespace

std::string json_text(const Value& value) {
  return std::visit([](const auto& it) { return json(it).dump(); }, value);
}

std::string Section::to_json() const {
  return written(*this).dump(2);
}

void Section::merge_json(std::string_view text, const std::string& where) {
  // All changes are checked before the first assignment, so that an error
  // leaves the section unchanged.
  std::vector<Change> changes;
  collect(*this, parse_json(text, "[fleet.strategy] " + where), changes);
  for (Change& change : changes) {
    change.setting->assign(std::move(change.value));
  }
}

} // namespace argosy::fleet
