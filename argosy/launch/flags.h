#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/environment.h"

namespace argosy::launch {

// The command line of `argosy run`, split into flags and program, not yet
// interpreted.
struct CommandLine {
  bool help = false;
  // By long name with dashes but without the leading ones: "nproc-per-node".
  // The last occurrence wins; environment variables count as first.
  std::map<std::string, std::string> values;
  std::vector<std::string> env;     // each --env
  std::vector<std::string> program; // with its arguments

  bool has(const std::string& name) const { return values.count(name) > 0; }
  std::string get(const std::string& name, std::string_view fallback) const;

  bool operator==(const CommandLine&) const = default;
};

// Parses the words after `argosy run`. Flags end at `--` or at the first word
// that is neither a flag nor its value; the rest is the program. Flags of other
// launchers are replaced by ours (foreign_flags.h). Missing flags are taken
// from PET_<NAME>. Throws InvalidArgument.
CommandLine parse_command_line(
    const std::vector<std::string>& words, const Environment& environment);

// The text of --help.
std::string run_help();

} // namespace argosy::launch
