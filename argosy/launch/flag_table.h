#pragma once

#include <span>

namespace argosy::launch {

// One flag of `argosy run`. CLI11 parses by this table and prints it.
struct Flag {
  const char* name;   // long name, dash spelling
  const char* others; // further names as CLI11 takes them: "-n,--np"
  const char* value;  // name of its value; empty for a switch
  const char* theme;  // the group under which --help shows it
  const char* meaning;
};

std::span<const Flag> flag_table();

} // namespace argosy::launch
