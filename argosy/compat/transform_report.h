#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace argosy {

// The parameters that a transformation leaves out; ascending.
struct TransformReport {
  std::vector<std::string> only_in_source; // in its strategy, or in files only
  std::vector<std::string> only_in_target;

  bool operator==(const TransformReport&) const = default;
};
std::ostream& operator<<(std::ostream& out, const TransformReport& report);

} // namespace argosy
