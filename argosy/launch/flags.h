#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/environment.h"

namespace argosy::launch {

// The command line of `argosy run`, cut into flags and program but not yet
// understood.
struct CommandLine {
  bool help = false;
  // By long name without dashes, in the dash spelling: "nproc-per-node". What
  // was given last wins; the environment counts as given first.
  std::map<std::string, std::string> values;
  std::vector<std::string> env;     // each --env
  std::vector<std::string> program; // with its arguments

  bool has(const std::string& name) const { return values.count(name) > 0; }
  std::string get(const std::string& name, std::string_view fallback) const;

  bool operator==(const CommandLine&) const = default;
};

// `words` follow `argosy run`. Flags end at the first word that is neither a
// flag nor a flag's value, or at `--`; the rest belongs to the program. Flags
// that are absent are taken from PET_<NAME>. Throws InvalidArgument.
CommandLine parse_command_line(
    const std::vector<std::string>& words, const Environment& environment);

// The text of --help.
std::string run_help();

} // namespace argosy::launch
