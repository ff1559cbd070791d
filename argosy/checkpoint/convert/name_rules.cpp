#include "argosy/checkpoint/convert/name_rules.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::checkpoint {

namespace {

constexpr std::string_view kArrow = " ->";
constexpr std::string_view kDrop = "drop ";
// The library's matcher recurses: long texts could end the stack.
constexpr std::size_t kLongestName = 4096;
constexpr std::size_t kLongestRule = 1000;

[[noreturn]] void refuse_rule(
    const std::string& path, int line, const std::string& what) {
  throw InvalidArgument(
      str("[checkpoint.rules] ", path, ", line ", line, ": ", what));
}

// The highest n of $n; "$$" is a dollar.
unsigned highest_group(std::string_view replacement) {
  unsigned highest = 0;
  for (std::size_t i = 0; i + 1 < replacement.size(); ++i) {
    if (replacement[i] != '$') {
      continue;
    }
    const char next = replacement[++i];
    if (std::isdigit(static_cast<unsigned char>(next)) != 0) {
      highest = std::max(highest, static_cast<unsigned>(next - '0'));
    }
  }
  return highest;
}

Pattern compile(std::string_view pattern, const std::string& path, int line) {
  if (pattern.empty() || pattern.size() > kLongestRule) {
    refuse_rule(
        path,
        line,
        str("a regular expression of ",
            pattern.size(),
            " characters, expected 1 to ",
            kLongestRule));
  }
  return Pattern(
      pattern, str("[checkpoint.rules] ", path, ", line ", line, ":"));
}

} // namespace

NameRules NameRules::parse(std::string_view text, const std::string& path) {
  NameRules rules;
  rules.path_ = path;
  int number = 0;
  for (const std::string& whole : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(whole);
    if (line.empty() || line[0] == '#') {
      continue;
    }
    if (line.substr(0, kDrop.size()) == kDrop) {
      const auto pattern = trim(line.substr(kDrop.size()));
      rules.rules_.push_back(
          {compile(pattern, path, number), std::nullopt, number});
      continue;
    }
    const std::size_t arrow = line.find(kArrow);
    if (arrow == std::string_view::npos) {
      refuse_rule(
          path,
          number,
          str("\"", line, "\", expected REGEX -> REPLACEMENT, or drop REGEX"));
    }
    Rule rule{
        compile(trim(line.substr(0, arrow)), path, number),
        std::string(trim(line.substr(arrow + kArrow.size()))),
        number};
    if (highest_group(*rule.replacement) > rule.pattern.num_groups()) {
      refuse_rule(
          path,
          number,
          str("$",
              highest_group(*rule.replacement),
              ", but the expression has ",
              rule.pattern.num_groups(),
              " groups"));
    }
    rules.rules_.push_back(std::move(rule));
  }
  return rules;
}

NameRules NameRules::of_file(const std::string& path) {
  const auto text = read_file(path);
  ARGOSY_CHECK(text, "[checkpoint.rules] there is no file {}", path);
  return parse(*text, path);
}

const NameRules::Rule* NameRules::find(const std::string& name) const {
  ARGOSY_CHECK(
      name.size() <= kLongestName,
      "[checkpoint.rules] a name of {} characters, expected at most {}",
      name.size(),
      kLongestName);
  for (const Rule& rule : rules_) {
    if (rule.pattern.is_found_in(name)) {
      return &rule;
    }
  }
  return nullptr;
}

std::optional<std::string> NameRules::apply(const std::string& name) const {
  const Rule* rule = find(name);
  if (rule == nullptr) {
    return name;
  }
  if (!rule->replacement) {
    return std::nullopt;
  }
  std::string changed = rule->pattern.replace_first(name, *rule->replacement);
  if (changed.empty()) {
    refuse_rule(path_, rule->line, "nothing is left of the name " + name);
  }
  return changed;
}

std::optional<std::string> NameRules::choose(const std::string& name) const {
  const Rule* rule = find(name);
  return rule == nullptr ? std::nullopt : rule->replacement;
}

} // namespace argosy::checkpoint
