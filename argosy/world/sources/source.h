#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/world/launch_info.h"

namespace argosy::world {

// How close a source is to this process. The closest level that applies wins.
enum class Level {
  Agent,     // an elastic agent started this process
  Launcher,  // a launcher of ranks started it
  Scheduler, // a batch or cluster system placed it
};

// What a source says.
struct Claim {
  LaunchInfo info;
  std::vector<std::string> notes;
};

// What sources read besides variables.
struct Context {
  const Environment& env;
  std::string job_key; // AdoptOptions::job_key
};

// A kind of launch environment. To add one, add a file in this folder and a
// line in table.cpp.
struct Source {
  std::string_view name;
  Level level = Level::Launcher;
  // The source applies if one of these variables is set.
  std::vector<std::string> marks;
  // It is complete if all of these are set; "A|B" accepts either.
  std::vector<std::string> needs;
  // Called if complete. Throws InvalidArgument, naming the variable.
  Claim (*read)(const Context& context) = nullptr;
  // Returns why the marks belong to another source here, or "".
  std::string (*disowned)(const Environment& env) = nullptr;
};

// All sources. If several agree, the first one is adopted.
const std::vector<Source>& sources();

// Each is in the file of its name, unless noted.
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
