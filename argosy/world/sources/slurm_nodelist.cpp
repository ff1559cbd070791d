#include "argosy/world/sources/slurm_nodelist.h"

#include <optional>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::world {

namespace {

// Limits the effect of a typo; no cluster is larger.
constexpr std::size_t kMostHosts = 100000;

using Names = std::vector<std::string>;

[[noreturn]] void refuse(
    std::string_view what, std::string_view text, std::string_view why) {
  throw InvalidArgument(
      str(what, "=", text, " is not a list such as a[1-3,07],b2: ", why));
}

// Splits at commas outside brackets.
Names split_items(std::string_view text, std::string_view what) {
  Names items(1);
  bool inside = false;
  for (const char c : text) {
    if ((c == '[' && inside) || (c == ']' && !inside)) {
      refuse(what, text, "brackets do not match");
    }
    inside = c == '[' || (inside && c != ']');
    if (c == ',' && !inside) {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  if (inside) {
    refuse(what, text, "brackets do not match");
  }
  return items;
}

std::string padded(long long number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return digits.size() >= width
      ? digits
      : std::string(width - digits.size(), '0') + digits;
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
      text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Expands "1-3", "7" or "007-9" to numbers as text.
Names expand_range(
    std::string_view range, std::string_view text, std::string_view what) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last =
      dash == std::string_view::npos ? first : range.substr(dash + 1);
  if (!is_digits(first) || !is_digits(last)) {
    refuse(what, text, str("\"", range, "\" is not a range of numbers"));
  }
  const long long low = *parse_int(first);
  const long long high = *parse_int(last);
  if (low > high || high - low >= static_cast<long long>(kMostHosts)) {
    refuse(what, text, str("the range ", range, " is invalid"));
  }
  Names numbers;
  for (long long number = low; number <= high; ++number) {
    numbers.push_back(padded(number, first.size()));
  }
  return numbers;
}

Names expand_brackets(
    std::string_view inside, std::string_view text, std::string_view what) {
  if (inside.empty()) {
    refuse(what, text, "brackets are empty");
  }
  Names all;
  for (const std::string& range : split(inside, ',')) {
    for (std::string& number : expand_range(range, text, what)) {
      all.push_back(std::move(number));
    }
    if (all.size() > kMostHosts) {
      refuse(what, text, "too many hosts");
    }
  }
  return all;
}

// Returns all concatenations of a start and an ending.
Names combine(const Names& starts, const Names& endings) {
  Names all;
  for (const std::string& start : starts) {
    for (const std::string& ending : endings) {
      all.push_back(start + ending);
    }
  }
  return all;
}

Names expand_item(
    std::string_view item, std::string_view text, std::string_view what) {
  Names names = {""};
  while (!item.empty()) {
    const std::size_t open = item.find('[');
    names = combine(names, {std::string(item.substr(0, open))});
    if (open == std::string_view::npos) {
      break;
    }
    const std::size_t close = item.find(']', open);
    const Names numbers =
        expand_brackets(item.substr(open + 1, close - open - 1), text, what);
    // Before combine(), which would otherwise exhaust memory.
    if (names.size() * numbers.size() > kMostHosts) {
      refuse(what, text, "too many hosts");
    }
    names = combine(names, numbers);
    item.remove_prefix(close + 1);
  }
  return names;
}

} // namespace

// Slurm's compact host list: items separated by commas. An item may contain
// bracketed lists of numbers and ranges, and stands for all combinations:
// a[1-2]b[07,9] is a1b07, a1b9, a2b07, a2b9. Leading zeros set the width.
std::vector<std::string> expand_nodelist(
    std::string_view text, std::string_view what) {
  Names all;
  for (const std::string& item : split_items(text, what)) {
    if (item.empty()) {
      refuse(what, text, "a name is empty");
    }
    for (std::string& name : expand_item(item, text, what)) {
      all.push_back(std::move(name));
    }
    if (all.size() > kMostHosts) {
      refuse(what, text, "too many hosts");
    }
  }
  return all;
}

namespace {

// Removes a suffix "(x3)" and returns 3; returns 1 if there are no brackets,
// nullopt if they are malformed.
std::optional<long long> take_times(std::string_view& item) {
  const std::size_t open = item.find("(x");
  if (open == std::string_view::npos) {
    return 1;
  }
  const std::string_view tail = item.substr(open + 2);
  item = item.substr(0, open);
  return tail.ends_with(')') ? parse_int(tail.substr(0, tail.size() - 1))
                             : std::nullopt;
}

} // namespace

std::vector<int> expand_tasks_per_node(
    std::string_view text, std::string_view what) {
  std::vector<int> tasks;
  for (const std::string& item : split(text, ',')) {
    std::string_view rest = item;
    const auto times = take_times(rest);
    const auto count = parse_int(rest);
    const auto most = static_cast<long long>(kMostHosts - tasks.size());
    ARGOSY_CHECK(
        count && *count >= 0 && *count <= 1000000 && times && *times > 0 &&
            *times <= most,
        "{}={} is not a list such as 2(x3),1",
        what,
        text);
    tasks.insert(tasks.end(), *times, static_cast<int>(*count));
  }
  return tasks;
}

} // namespace argosy::world
