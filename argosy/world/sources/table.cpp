#include "argosy/world/sources/source.h"

namespace argosy::world {

const std::vector<Source>& sources() {
  static const std::vector<Source> kSources = {
      torchrun_source(),
      env_source(),
      openmpi_source(),
      mvapich_source(),
      mpich_source(),
      paddle_source(),
      paddle_ps_source(),
      fluid_source(),
      mindspore_source(),
      rank_table_source(),
      pet_source(),
      slurm_source(),
      lsf_source(),
      leader_worker_set_source(),
      volcano_source(),
      indexed_job_source(),
  };
  return kSources;
}

} // namespace argosy::world
