#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/world/launch_info.h"

namespace argosy::world {

// How near to this process a source stands. The nearest level that speaks wins.
enum class Level {
  Agent,     // an elastic agent started this very process
  Launcher,  // a launcher of ranks did
  Scheduler, // a batch or cluster system placed it
};

// What a source says.
struct Claim {
  LaunchInfo info;
  std::vector<std::string> notes;
};

// What sources need beside the variables.
struct Context {
  const Environment& env;
  std::string job_key; // AdoptOptions::job_key
};

// One kind of launch environment. Adding one is a file in this folder and a
// line in table.cpp.
struct Source {
  std::string_view name;
  Level level = Level::Launcher;
  // It speaks when one of these is set.
  std::vector<std::string> marks;
  // It is complete when all of these are; "A|B" is satisfied by either.
  std::vector<std::string> needs;
  // Called when complete. Throws InvalidArgument that names the variable.
  Claim (*read)(const Context& context) = nullptr;
  // Why the marks belong to another source in this environment, or "".
  std::string (*disowned)(const Environment& env) = nullptr;
};

// All sources. Of several that agree, the first one is adopted.
const std::vector<Source>& sources();

// Each in the file of its name.
Source torchrun_source();
Source env_source();     // torchrun.cpp
Source openmpi_source(); // mpi.cpp
Source mpich_source();   // mpi.cpp
Source mvapich_source(); // mpi.cpp
Source paddle_source();
Source paddle_ps_source();
Source fluid_source();
Source mindspore_source();
Source rank_table_source();
Source pet_source();
Source slurm_source();
Source lsf_source();
Source leader_worker_set_source(); // kubernetes.cpp
Source volcano_source();           // kubernetes.cpp
Source indexed_job_source();       // kubernetes.cpp

} // namespace argosy::world
