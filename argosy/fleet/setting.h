#pragma once

#include <cstddef>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

// Settings that describe themselves. Each is declared on one line of a struct
// and can be listed, printed, written to JSON and read back. No torch headers.
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

// Returns a value as JSON on one line.
std::string json_text(const Value& value);

// The values that a setting accepts: numbers in an interval, or one of several
// strings. For a list, it applies to each element.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_is_out = false;
  bool most_is_out = false;
  std::vector<std::string> choices = {}; // empty: any string
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
// from_to: [least, most); between: (least, most).
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

// Base of settings and sections. Assignment keeps the name and path.
class Entry {
 public:
  virtual ~Entry() = default;
  Entry& operator=(const Entry&) { return *this; }

  const std::string& name() const { return name_; }
  // The name prefixed with the enclosing sections': "lars_configs.epsilon".
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

// A setting independent of its type.
class AnySetting : public Entry {
 public:
  const Value& value() const { return value_; }
  const Value& default_value() const { return default_; }
  const Range& range() const { return range_; }
  bool is_default() const { return value_ == default_; }
  bool is_list() const {
    return std::holds_alternative<std::vector<double>>(default_) ||
        std::holds_alternative<std::vector<std::string>>(default_);
  }

  // Throw InvalidArgument, naming the setting, when the value has another type
  // or is out of range. check() does not assign.
  void assign(Value value);
  void check(const Value& value) const;
  bool accepts(const Value& value) const;
  // "gradient_merge_configs.k_steps is 0, expected an integer >= 1".
  std::string refusal_of(const std::string& value_text) const;

  // The accepted values in words: "an integer >= 1".
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

// Whether a number of type U can be assigned to a setting of T without
// surprise: bool only to bool, floating point only to double.
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
  // Accepts any value.
  Setting(Section* of, const char* name, T initial, const char* doc)
      : Setting(of, name, std::move(initial), anything(), doc) {}
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

// A group of settings and nested sections, in the order of declaration. Copies
// are independent; moving copies.
class Section : public Entry {
 public:
  Section() = default;
  Section(Section* of, const char* name, const char* doc);
  Section(const Section&) = default;
  // Members assign themselves.
  Section& operator=(const Section&) { return *this; }

  std::vector<const Entry*> entries() const&;
  std::vector<const Entry*> entries() && = delete;

  // All settings, including those of nested sections.
  std::vector<const AnySetting*> settings() const&;
  std::vector<const AnySetting*> settings() && = delete;

  // The setting with this path; null if there is none.
  const AnySetting* find(std::string_view path) const&;

  std::string to_json() const;

  // Assigns the values in the JSON `text` and leaves other settings as they
  // are. A whole strategy may use names of Paddle's (foreign_names.h). Throws
  // InvalidArgument, and assigns nothing, when `text` is not JSON, names an
  // unknown setting (the message suggests a name), or has a value of a wrong
  // type or out of range. The message has all that is wrong, and begins with
  // `where`, the name of the source.
  void merge_json(std::string_view text, const std::string& where = "");

 private:
  friend class AnySetting;
  friend std::vector<Entry*> entries_of(Section& section);

  void add(const Entry* entry);

  // Offsets of the entries from this object: they stay valid in a copy, whose
  // entries are its own members.
  std::vector<std::ptrdiff_t> offsets_;
};

// Whether two sections of the same type have equal values.
bool operator==(const Section& a, const Section& b);

// Prints a table of all settings; a star marks values that are not the default.
std::ostream& operator<<(std::ostream& out, const Section& section);

} // namespace argosy::fleet
