#pragma once

#include <cstddef>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

// Settings that describe themselves: each is one line of a struct, and can be
// listed, printed, written as JSON and read back. Torch-free.
//
//   struct Oven : fleet::Section {
//     fleet::Setting<int> degrees{
//         this, "degrees", 180, fleet::at_least(50), "how hot"};
//   };
//   Oven oven;
//   oven.degrees = 200;
//   oven.merge_json(R"({"degrees": 220})");
namespace argosy::fleet {

using Value = std::variant<
    bool,
    int,
    double,
    std::string,
    std::vector<double>,
    std::vector<std::string>>;

// Which numbers, or texts, a setting takes; of a list, its entries.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_is_out = false;
  bool most_is_out = false;
  std::vector<std::string> choices = {}; // none: any text
};

inline Range anything() {
  return {};
}
inline Range at_least(double least) {
  return {.least = least};
}
inline Range above(double least) {
  return {.least = least, .least_is_out = true};
}
// [least, most), and (least, most).
inline Range from_to(double least, double most) {
  return {.least = least, .most = most, .most_is_out = true};
}
inline Range between(double least, double most) {
  return {
      .least = least, .most = most, .least_is_out = true, .most_is_out = true};
}
inline Range one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}

class Section;

// What settings and sections have in common. Assigning one never changes its
// name or place.
class Entry {
 public:
  virtual ~Entry() = default;
  Entry& operator=(const Entry&) { return *this; }

  const std::string& name() const { return name_; }
  // The name with those of the sections around it: "lars_configs.epsilon".
  const std::string& path() const { return path_; }
  const std::string& doc() const { return doc_; }

 protected:
  Entry() = default;
  Entry(const Section* of, const char* name, const char* doc);
  Entry(const Entry&) = default;

 private:
  std::string name_;
  std::string path_;
  std::string doc_;
};

// A setting without its type.
class AnySetting : public Entry {
 public:
  const Value& value() const { return value_; }
  const Value& default_value() const { return default_; }
  const Range& range() const { return range_; }
  bool is_default() const { return value_ == default_; }

  // Throws InvalidArgument that names the setting when the value has another
  // type, or is out of range. check() does only that.
  void assign(Value value);
  void check(const Value& value) const;

  // "an integer >= 1", for people.
  std::string expected() const;

  AnySetting& operator=(const AnySetting& other);

 protected:
  AnySetting(
      Section* of,
      const char* name,
      Value initial,
      Range range,
      const char* doc);
  AnySetting(const AnySetting&) = default;

 private:
  Value value_;
  Value default_;
  Range range_;
};

// Whether a number of type U may be assigned to a setting of T: none becomes
// another, and true is no number.
template <typename T, typename U>
constexpr bool kTakes = std::is_same_v<T, U> ||
    (!std::is_same_v<T, bool> && !std::is_same_v<U, bool> &&
     (std::is_same_v<T, double> || std::is_integral_v<U>));

template <typename T>
class Setting final : public AnySetting {
 public:
  Setting(
      Section* of, const char* name, T initial, Range range, const char* doc)
      : AnySetting(of, name, Value(std::move(initial)), std::move(range), doc) {
  }
  Setting(const Setting&) = default;

  Setting& operator=(const Setting& other) = default;
  Setting& operator=(const T& value) {
    assign(Value(value));
    return *this;
  }
  template <typename U>
  requires(std::is_arithmetic_v<U> && !kTakes<T, U>) Setting& operator=(U) =
      delete;

  const T& get() const { return std::get<T>(value()); }
  operator const T&() const { return get(); }
};

// Settings, and sections of settings, in the order in which they are declared.
// Copies are independent. Moving copies.
class Section : public Entry {
 public:
  Section() = default;
  Section(Section* of, const char* name, const char* doc);
  Section(const Section&) = default;
  Section& operator=(const Section&) { return *this; } // settings do it

  std::vector<const Entry*> entries() const&;
  std::vector<const Entry*> entries() && = delete;

  // All settings, also those of sections within.
  std::vector<const AnySetting*> settings() const&;
  std::vector<const AnySetting*> settings() && = delete;

  std::string to_json() const;

  // Sets what the text has and leaves the rest. Throws InvalidArgument when it
  // is not JSON, names what is no setting (the message has the nearest name),
  // or has a value of another type or out of range; nothing is set then.
  // `where` names the text for what is not JSON.
  void merge_json(std::string_view text, const std::string& where = "JSON");

 private:
  friend class AnySetting;
  friend std::vector<Entry*> entries_of(Section& section);

  void add(const Entry* entry);

  // Where entries are from the begin of this section, so that a copy, which has
  // its own, need not be told.
  std::vector<std::ptrdiff_t> offsets_;
};

// Whether two sections of one type have equal values.
bool operator==(const Section& a, const Section& b);

// A table of all settings; a star marks those that differ from the default.
std::ostream& operator<<(std::ostream& out, const Section& section);

} // namespace argosy::fleet
