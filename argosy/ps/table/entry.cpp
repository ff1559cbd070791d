#include "argosy/ps/table/entry.h"

#include <charconv>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::ps {

namespace {

std::string shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

} // namespace

Entry count_filter_entry(long long count) {
  ARGOSY_CHECK(
      count >= 0,
      "[ps.entry] count filter of {}, expected an integer of at least 0",
      count);
  return {.kind = Entry::Kind::CountFilter, .count = count};
}

Entry probability_entry(double probability) {
  ARGOSY_CHECK(
      probability > 0 && probability < 1,
      "[ps.entry] probability {}, expected a number between 0 and 1",
      probability);
  return {.kind = Entry::Kind::Probability, .probability = probability};
}

Entry show_click_entry(std::string show_name, std::string click_name) {
  for (const std::string& name : {show_name, click_name}) {
    ARGOSY_CHECK(
        !name.empty() && name.find(':') == std::string::npos,
        "[ps.entry] variable '{}', expected a name without ':'",
        name);
  }
  return {
      .kind = Entry::Kind::ShowClick,
      .show_name = std::move(show_name),
      .click_name = std::move(click_name)};
}

std::string to_string(const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::None:
      return "none";
    case Entry::Kind::CountFilter:
      return str("count_filter_entry:", entry.count);
    case Entry::Kind::Probability:
      return "probability_entry:" + shortest(entry.probability);
    case Entry::Kind::ShowClick:
      return str("show_click_entry:", entry.show_name, ":", entry.click_name);
  }
  return "none";
}

Entry parse_entry(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  const std::string kind = parts.empty() ? "" : parts[0];
  if (kind == "none" && parts.size() == 1) {
    return {};
  }
  if (kind == "count_filter_entry" && parts.size() == 2) {
    if (const auto count = parse_int(parts[1])) {
      return count_filter_entry(*count);
    }
  }
  if (kind == "probability_entry" && parts.size() == 2) {
    if (const auto probability = parse_number(parts[1])) {
      return probability_entry(*probability);
    }
  }
  if (kind == "show_click_entry" && parts.size() == 3) {
    return show_click_entry(parts[1], parts[2]);
  }
  throw InvalidArgument(
      str("[ps.entry] '",
          text,
          "', expected none, count_filter_entry:N, probability_entry:P or "
          "show_click_entry:SHOW:CLICK"));
}

} // namespace argosy::ps
