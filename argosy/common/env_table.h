#pragma once

#include <span>
#include <string_view>

namespace argosy {

// A variable that Argosy itself gives a meaning.
struct EnvVariable {
  std::string_view name;
  std::string_view default_text;
  std::string_view meaning;
};

// All variables whose names start with ARGOSY_. docs/env.md shows this table; a
// test keeps the two, and the names that the code mentions, the same.
std::span<const EnvVariable> env_table();

} // namespace argosy
