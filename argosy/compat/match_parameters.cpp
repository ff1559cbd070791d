#include "argosy/compat/match_parameters.h"

#include <set>

namespace argosy::compat {

namespace {

bool ends_alike(const std::string& a, const std::string& b) {
  return a.ends_with("." + b) || b.ends_with("." + a);
}

// The only name that ends as `name` does; empty if none or several do.
std::string only_match(
    const std::string& name, const std::set<std::string>& others) {
  std::string found;
  for (const std::string& other : others) {
    if (ends_alike(name, other)) {
      if (!found.empty()) {
        return {};
      }
      found = other;
    }
  }
  return found;
}

} // namespace

ParameterMatches match_parameters(
    const std::vector<std::string>& net,
    const std::vector<std::string>& checkpoint,
    bool strict) {
  ParameterMatches matches;
  std::set<std::string> left(checkpoint.begin(), checkpoint.end());
  std::set<std::string> open;
  for (const std::string& name : net) {
    if (left.erase(name) > 0) {
      matches.in_checkpoint[name] = name;
    } else {
      open.insert(name);
    }
  }
  // Both sides must have no other choice, so that the order does not matter.
  const std::set<std::string> candidates = left;
  for (const std::string& name : strict ? std::set<std::string>() : open) {
    const std::string other = only_match(name, candidates);
    if (!other.empty() && only_match(other, open) == name) {
      matches.in_checkpoint[name] = other;
      left.erase(other);
    }
  }
  for (const std::string& name : open) {
    if (!matches.in_checkpoint.contains(name)) {
      matches.not_loaded.param_not_load.push_back(name);
    }
  }
  matches.not_loaded.ckpt_not_load.assign(left.begin(), left.end());
  return matches;
}

} // namespace argosy::compat
