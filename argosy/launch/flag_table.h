#pragma once

#include <span>

namespace argosy::launch {

// A flag of `argosy run`. CLI11 parses and prints by this table.
struct Flag {
  const char* name;  // long name, with dashes
  const char* value; // placeholder of the value; empty for a switch
  const char* meaning;
  const char* others = ""; // further names in CLI11's form: "-n,--np"
};

// A section of --help.
struct FlagTheme {
  const char* title;
  std::span<const Flag> flags;
  // Of another launcher; foreign_flags.h translates them.
  bool is_foreign = false;
};

std::span<const FlagTheme> flag_themes();

} // namespace argosy::launch
