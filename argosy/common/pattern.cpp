#include "argosy/common/pattern.h"

#include <regex>

#include "argosy/common/error.h"

namespace argosy {

struct Pattern::Compiled {
  std::regex expression;
};

Pattern::Pattern(std::string_view text, std::string_view where, Case letters) {
  auto flags = std::regex::ECMAScript;
  if (letters == Case::Ignored) {
    flags |= std::regex::icase;
  }
  try {
    compiled_ = std::make_shared<const Compiled>(
        Compiled{std::regex(text.begin(), text.end(), flags)});
  } catch (const std::regex_error& error) {
    throw InvalidArgument(str_format(
        "{} \"{}\" is not a regular expression: {}",
        where,
        text,
        error.what()));
  }
}

bool Pattern::matches(const std::string& name) const {
  return std::regex_match(name, compiled_->expression);
}

bool Pattern::is_found_in(const std::string& name) const {
  return std::regex_search(name, compiled_->expression);
}

std::string Pattern::replace_first(
    const std::string& name, const std::string& replacement) const {
  return std::regex_replace(
      name,
      compiled_->expression,
      replacement,
      std::regex_constants::format_first_only);
}

unsigned Pattern::num_groups() const {
  return compiled_->expression.mark_count();
}

} // namespace argosy
