#pragma once

#include <string>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/world/launch_info.h"

namespace argosy {

// What one source of launch information (a launcher or scheduler) says.
struct Finding {
  enum class State {
    Absent,   // none of its variables is set
    Partial,  // incomplete or invalid
    Outer,    // describes an outer layer; an inner launcher started us
    Complete, // usable, but another source was adopted
    Adopted,
  };

  std::string source; // the name for ARGOSY_ADOPT
  State state = State::Absent;
  std::string reason; // variables with values, or what is missing

  bool operator==(const Finding&) const = default;
};

std::string to_string(Finding::State state);

struct AdoptOptions {
  // A text that the processes of one job on this host share and other jobs do
  // not, for launchers that provide none. See local_job_key().
  std::string job_key;
};

// The result of examining an environment.
struct Adoption {
  LaunchInfo info; // valid if `error` is empty
  std::vector<Finding> findings;
  std::vector<std::string> notes; // oddities that are not errors
  std::string error;              // why adopt() throws, or empty
};

// Finds out who this process is from `env`. docs/launch-environments.md lists
// the sources and rules. Deterministic: depends only on `env` and on the files
// named by RANK_TABLE_FILE and PADDLE_BACKUP_ENV_PATH. Throws SystemError when
// such a file cannot be read; reports all other problems in `error`.
Adoption examine(const Environment& env, const AdoptOptions& options = {});

// The same, but throws InvalidArgument instead of returning an `error`.
Adoption adopt(const Environment& env, const AdoptOptions& options = {});

// Calls adopt() with the environment and job key of this process.
Adoption adopt_process();

} // namespace argosy
