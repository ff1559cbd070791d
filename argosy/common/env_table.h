#pragma once

#include <span>
#include <string_view>

namespace argosy {

// An environment variable defined by Argosy.
struct EnvVariable {
  std::string_view name;
  std::string_view default_text;
  std::string_view meaning;
};

// All variables that start with ARGOSY_. docs/env.md shows this table; a test
// checks that both agree with the names used in the code.
std::span<const EnvVariable> env_table();

} // namespace argosy
