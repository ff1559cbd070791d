#pragma once

#include <span>

namespace argosy::launch {

// A flag of `argosy run`. CLI11 parses and prints by this table.
struct Flag {
  const char* name;   // long name, with dashes
  const char* others; // further names in CLI11's form: "-n,--np"
  const char* value;  // placeholder of the value; empty for a switch
  const char* theme;  // the section of --help
  const char* meaning;
};

std::span<const Flag> flag_table();

} // namespace argosy::launch
