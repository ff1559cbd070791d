#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace argosy {

// A regular expression (ECMAScript) that a user gave. Apart from <regex>, whose
// templates cost five seconds in every file that uses them.
class Pattern {
 public:
  enum class Case { Sensitive, Ignored };

  // Throws InvalidArgument that begins with `where`, as in "[checkpoint.load]".
  Pattern(
      std::string_view text,
      std::string_view where,
      Case letters = Case::Sensitive);

  // Whether the whole of `name`, or a part of it, matches.
  bool matches(const std::string& name) const;
  bool is_found_in(const std::string& name) const;

  // `name` with the first match replaced; $1 stands for the first group.
  std::string replace_first(
      const std::string& name, const std::string& replacement) const;

  // Groups in parentheses.
  unsigned num_groups() const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_; // immutable, so copies share it
};

} // namespace argosy
