#include "argosy/fleet/setting.h"

#include <nlohmann/json.hpp>

#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/json.h"
#include "argosy/common/text.h"
#include "argosy/fleet/foreign_names.h"
#include "argosy/fleet/problems.h"

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
    return text.is_number_unsigned()
        ? std::in_range<int>(text.get<std::uint64_t>())
        : text.is_number_integer() &&
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
  std::string name; // in the document: the setting's path, or an alias
  Value value;
};

// Reads a document into changes and problems. A name is first looked up among
// the settings, then among those that other programs have (foreign_names.h).
class Reader {
 public:
  Reader(Section& root, Problems& problems)
      : root_(root), problems_(problems) {}

  void read_document(const json& document) {
    read_section(&root_, root_.path(), document);
  }

  std::vector<Change>& changes() { return changes_; }

 private:
  // `section` null: there is only a foreign one at this path.
  void read_section(
      Section* section, const std::string& path, const json& object) {
    if (!object.is_object()) {
      problems_.add(str_format(
          "{} is {}, expected an object of settings",
          path.empty() ? "the document" : path,
          object.dump()));
      return;
    }
    for (const auto& [name, text] : object.items()) {
      read_entry(section, path.empty() ? name : path + '.' + name, name, text);
    }
  }

  void read_entry(
      Section* section,
      const std::string& path,
      const std::string& name,
      const json& text) {
    if (Entry* entry = section == nullptr ? nullptr : find(*section, name)) {
      if (auto* within = dynamic_cast<Section*>(entry)) {
        read_section(within, path, text);
      } else {
        change(dynamic_cast<AnySetting&>(*entry), path, text);
      }
      return;
    }
    if (const auto ours = alias_of(path)) {
      if (const AnySetting* setting = root_.find(*ours)) {
        change(const_cast<AnySetting&>(*setting), path, text);
        return;
      }
    }
    if (text.is_object() && is_foreign_section(path)) {
      read_section(nullptr, path, text);
      return;
    }
    refuse(section, path, name, text);
  }

  // Unknown names are errors: a misspelt setting would silently keep its
  // default.
  void refuse(
      Section* section,
      const std::string& path,
      const std::string& name,
      const json& text) {
    if (const ForeignName* known = foreign_name(path)) {
      problems_.require(
          asks_for_nothing(*known, text),
          "{} is {}: {}",
          path,
          text.dump(),
          known->instead);
      return;
    }
    if (const auto hint = hint_for(path)) {
      problems_.add(str_format("there is no {}: {}", path, *hint));
      return;
    }
    const std::string prefix = path.substr(0, path.size() - name.size());
    const auto names = names_in(section, prefix);
    const auto meant = nearest(name, names);
    problems_.add(
        str("there is no ",
            path,
            meant ? ": did you mean " + prefix + *meant + "?"
                  : "; there are " + join(names, ", ")));
  }

  void change(AnySetting& setting, const std::string& path, const json& text) {
    // The default's type decides what the JSON value must be.
    Value value = setting.default_value();
    const bool fits =
        std::visit([&](auto& it) { return read(text, it); }, value);
    if (!fits || !setting.accepts(value)) {
      problems_.add(setting.refusal_of(text.dump()));
      return;
    }
    for (const Change& earlier : changes_) {
      if (earlier.setting == &setting) {
        problems_.require(
            earlier.value == value,
            "{} is {} and {} is {}, but both are {}",
            earlier.name,
            json_text(earlier.value),
            path,
            text.dump(),
            setting.path());
      }
    }
    changes_.push_back({&setting, path, std::move(value)});
  }

  static Entry* find(Section& section, const std::string& name) {
    for (Entry* entry : entries_of(section)) {
      if (entry->name() == name) {
        return entry;
      }
    }
    return nullptr;
  }

  static std::vector<std::string> names_in(
      Section* section, const std::string& prefix) {
    if (section == nullptr) {
      return foreign_names_in(prefix);
    }
    std::vector<std::string> names;
    for (const Entry* entry : entries_of(*section)) {
      names.push_back(entry->name());
    }
    return names;
  }

  Section& root_;
  Problems& problems_;
  std::vector<Change> changes_;
};

} // namespace

std::string json_text(const Value& value) {
  return std::visit([](const auto& it) { return json(it).dump(); }, value);
}

std::string Section::to_json() const {
  return written(*this).dump(2);
}

void Section::merge_json(std::string_view text, const std::string& where) {
  const json document =
      parse_json(text, "[fleet.strategy] " + (where.empty() ? "JSON" : where));
  Problems problems(where);
  Reader reader(*this, problems);
  reader.read_document(document);
  // All changes are checked before the first assignment, so that an error
  // leaves the section unchanged.
  problems.raise();
  for (Change& change : reader.changes()) {
    change.setting->assign(std::move(change.value));
  }
}

} // namespace argosy::fleet
