#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/pattern.h"

namespace argosy::checkpoint {

// Renames and drops tensors. A file of lines:
//
//   # names of the old model
//   ^model/module\. -> model/
//   \.gamma$ -> .weight
//   drop ^optimizer/
//
// Regular expressions are those of ECMAScript, and may match anywhere in a
// name; the replacement stands for what they match, with $1, $2 ... for groups.
// The first rule that matches a name is the only one that is applied to it.
class NameRules {
 public:
  NameRules() = default; // changes nothing

  // Throws InvalidArgument that names the path and the line.
  static NameRules parse(std::string_view text, const std::string& path);
  static NameRules of_file(const std::string& path);

  // The new name; none if it is dropped. Throws InvalidArgument if nothing is
  // left of it.
  std::optional<std::string> apply(const std::string& name) const;

  // What the first rule that matches stands for; none if no rule does.
  // For rules that choose a value, as in "weight$ -> 0".
  std::optional<std::string> choose(const std::string& name) const;

  bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    Pattern pattern;
    std::optional<std::string> replacement; // none: drop
    int line = 0;
  };
  const Rule* find(const std::string& name) const;

  std::string path_;
  std::vector<Rule> rules_;
};

} // namespace argosy::checkpoint
