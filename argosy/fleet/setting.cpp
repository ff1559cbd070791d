#include "argosy/fleet/setting.h"

#include <algorithm>
#include <cmath>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::fleet {

namespace {

bool is_within(double number, const Range& range) {
  // NaN fails both comparisons; infinities are refused even without limits.
  const bool low =
      range.least_is_out ? number > range.least : number >= range.least;
  const bool high =
      range.most_is_out ? number < range.most : number <= range.most;
  return low && high && std::isfinite(number);
}

bool is_within(const std::string& text, const Range& range) {
  return range.choices.empty() ||
      std::ranges::find(range.choices, text) != range.choices.end();
}

template <typename T>
bool is_within(const std::vector<T>& list, const Range& range) {
  return std::ranges::all_of(
      list, [&](const T& entry) { return is_within(entry, range); });
}

std::string limits(const Range& range) {
  const bool has_least = std::isfinite(range.least);
  const bool has_most = std::isfinite(range.most);
  if (has_least && has_most) {
    return str(
        " in ",
        range.least_is_out ? '(' : '[',
        range.least,
        ", ",
        range.most,
        range.most_is_out ? ')' : ']');
  }
  return has_least ? str(range.least_is_out ? " > " : " >= ", range.least) : "";
}

// In the order of Value's alternatives.
constexpr const char* kKinds[] = {
    "true or false",
    "an integer",
    "a number",
    "a text",
    "a list of numbers",
    "a list of texts"};
static_assert(std::size(kKinds) == std::variant_size_v<Value>);

} // namespace

Entry::Entry(const Section* of, const char* name, const char* doc)
    : name_(name), path_(name), doc_(doc) {
  if (of != nullptr && !of->path().empty()) {
    path_ = of->path() + '.' + name_;
  }
}

AnySetting::AnySetting(
    Section* of, const char* name, Value initial, Range range, const char* doc)
    : Entry(of, name, doc),
      value_(initial),
      default_(std::move(initial)),
      range_(std::move(range)) {
  of->add(this);
}

// Copies the value alone, after checking it against the range of this setting.
AnySetting& AnySetting::operator=(const AnySetting& other) {
  assign(other.value_);
  return *this;
}

std::string AnySetting::expected() const {
  if (!range_.choices.empty()) {
    return "one of " + join(range_.choices, ", ");
  }
  return kKinds[default_.index()] + limits(range_);
}

bool AnySetting::accepts(const Value& value) const {
  return value.index() == default_.index() &&
      std::visit([&](const auto& it) { return is_within(it, range_); }, value);
}

std::string AnySetting::refusal_of(const std::string& value_text) const {
  return str_format("{} is {}, expected {}", path(), value_text, expected());
}

void AnySetting::check(const Value& value) const {
  ARGOSY_CHECK(
      accepts(value), "[fleet.strategy] {}", refusal_of(json_text(value)));
}

void AnySetting::assign(Value value) {
  check(value);
  value_ = std::move(value);
}

Section::Section(Section* of, const char* name, const char* doc)
    : Entry(of, name, doc) {
  of->add(this);
}

// Entries are members of their section and register by offset, not by address:
// the offsets of a copied section are right for the copy.
void Section::add(const Entry* entry) {
  offsets_.push_back(
      reinterpret_cast<const char*>(entry) -
      reinterpret_cast<const char*>(this));
}

std::vector<Entry*> entries_of(Section& section) {
  std::vector<Entry*> result;
  for (const std::ptrdiff_t offset : section.offsets_) {
    result.push_back(
        reinterpret_cast<Entry*>(reinterpret_cast<char*>(&section) + offset));
  }
  return result;
}

std::vector<const Entry*> Section::entries() const& {
  // entries_of() only computes addresses; nothing is written.
  const auto found = entries_of(const_cast<Section&>(*this));
  return {found.begin(), found.end()};
}

std::vector<const AnySetting*> Section::settings() const& {
  std::vector<const AnySetting*> result;
  for (const Entry* entry : entries()) {
    if (const auto* within = dynamic_cast<const Section*>(entry)) {
      const auto more = within->settings();
      result.insert(result.end(), more.begin(), more.end());
    } else {
      result.push_back(dynamic_cast<const AnySetting*>(entry));
    }
  }
  return result;
}

const AnySetting* Section::find(std::string_view path) const& {
  for (const AnySetting* setting : settings()) {
    if (setting->path() == path) {
      return setting;
    }
  }
  return nullptr;
}

bool operator==(const Section& a, const Section& b) {
  const auto ours = a.settings();
  const auto theirs = b.settings();
  return std::equal(
      ours.begin(),
      ours.end(),
      theirs.begin(),
      theirs.end(),
      [](const AnySetting* x, const AnySetting* y) {
        return x->value() == y->value();
      });
}

std::ostream& operator<<(std::ostream& out, const Section& section) {
  using Row = std::vector<std::string>;
  std::vector<Row> rows = {{"  setting", "value", "expected", "what it does"}};
  for (const AnySetting* setting : section.settings()) {
    rows.push_back(
        {(setting->is_default() ? "  " : "* ") + setting->path(),
         json_text(setting->value()),
         setting->expected(),
         setting->doc()});
  }
  // The last column is not padded, to leave no spaces at the ends of lines.
  std::vector<std::size_t> widths(rows[0].size() - 1);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      out << row[i] << std::string(widths[i] + 2 - row[i].size(), ' ');
    }
    out << row.back() << '\n';
  }
  return out;
}

} // namespace argosy::fleet
