#pragma once

#include <optional>
#include <string>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/world/launch_info.h"

namespace argosy {

// What one source of launch information said.
struct Finding {
  enum class State {
    Absent,   // nothing of it is set
    Partial,  // set by half, or to values that cannot be
    Outer,    // speaks of an outer layer: a launcher inside it started us
    Complete, // could be adopted, and is not: agrees, or another was forced
    Adopted,
  };

  std::string source; // a name for ARGOSY_ADOPT
  State state = State::Absent;
  std::string reason; // variables with values, or what is missing

  bool operator==(const Finding&) const = default;
};

std::string to_string(Finding::State state);

struct AdoptOptions {
  // Text that the processes of one job on this host share and other jobs do
  // not, for launchers whose variables have none. See local_job_key().
  std::string job_key;
};

// All that looking at an environment finds out.
struct Adoption {
  LaunchInfo info; // meaningful when `error` is empty
  std::vector<Finding> findings;
  std::vector<std::string> notes; // odd, but no error
  std::string error;              // why adopt() throws, or empty
};

// Who this process is according to `env`. docs/launch-environments.md lists the
// sources and the rules. Reads the files that RANK_TABLE_FILE and
// PADDLE_BACKUP_ENV_PATH name, and depends on nothing else: same environment,
// same answer. Throws SystemError when such a file exists and cannot be read;
// whatever else is wrong is in `error`.
Adoption examine(const Environment& env, const AdoptOptions& options = {});

// The same, throwing InvalidArgument with what would be in `error`.
Adoption adopt(const Environment& env, const AdoptOptions& options = {});

// adopt() with the environment and the job key of the calling process.
Adoption adopt_process();

} // namespace argosy
