#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "argosy/common/error.h"
#include "argosy/world/adopt.h"

// What the tests of adoption share.
namespace argosy::testing {

using Variables = std::map<std::string, std::string>;

inline LaunchInfo adopted(const Variables& variables) {
  return adopt(Environment(variables), {.job_key = "77.1234"}).info;
}

// The message that adopt() throws, or "" when it does not.
inline std::string refusal(const Variables& variables) {
  return examine(Environment(variables), {.job_key = "77.1234"}).error;
}

inline Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) {
    variables[name] = value;
  }
  return variables;
}

inline Finding finding_of(
    const Variables& variables, const std::string& source) {
  for (const Finding& finding : examine(Environment(variables)).findings) {
    if (finding.source == source) {
      return finding;
    }
  }
  ADD_FAILURE() << "no source " << source;
  return {};
}

} // namespace argosy::testing
