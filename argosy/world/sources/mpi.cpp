// MPI launchers. They number the ranks but provide no address: ranks on one
// host find each other through a file, others through the process manager.

#include "argosy/common/error.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

AddressExchange parse_exchange(const std::string& name) {
  for (const AddressExchange way :
       {AddressExchange::LocalFile,
        AddressExchange::Pmi,
        AddressExchange::Pmix}) {
    if (name == to_string(way)) {
      return way;
    }
  }
  throw InvalidArgument(str_format(
      "[world.adopt] ARGOSY_EXCHANGE={} is not one of file, pmi, pmix", name));
}

bool on_one_host(const LaunchInfo& info) {
  return info.knows_local && info.local_size == info.size;
}

// The job name must be equal on all ranks; the key of the local launcher is so
// on one host only.
std::string job_name(
    const LaunchInfo& info,
    const Context& context,
    const char* launcher,
    const char* id_name) {
  const std::string id =
      context.env.get(id_name, on_one_host(info) ? context.job_key : "");
  return id.empty() ? "" : str(launcher, "-", id);
}

// `wide` is what reaches other hosts under this launcher.
void set_exchange(
    LaunchInfo& info, const Environment& env, AddressExchange wide) {
  set_store(info, env);
  if (info.size == 1 || !info.store_url.empty()) {
    return;
  }
  info.address_exchange = on_one_host(info) ? AddressExchange::LocalFile : wide;
  if (const auto name = env.find("ARGOSY_EXCHANGE")) {
    info.address_exchange = parse_exchange(*name);
  }
  info.serves_store = info.rank == 0;
  check_store(info, "MASTER_ADDR");
}

bool has_pmi(const Environment& env) {
  return env.has("PMI_FD") || env.has("PMI_PORT");
}

Claim read_openmpi(const Context& context) {
  const Environment& env = context.env;
  LaunchInfo info;
  set_rank(info, env, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  set_local(
      info, env, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  info.run_id = job_name(info, context, "openmpi", "PMIX_NAMESPACE");
  const bool pmix = env.has("PMIX_NAMESPACE");
  set_exchange(info, env, pmix ? AddressExchange::Pmix : AddressExchange::None);
  return {info, {}};
}

Claim read_mvapich(const Context& context) {
  const Environment& env = context.env;
  LaunchInfo info;
  set_rank(info, env, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE");
  set_local(
      info, env, "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE");
  info.run_id = job_name(info, context, "mvapich", "MPIRUN_ID");
  set_exchange(
      info, env, has_pmi(env) ? AddressExchange::Pmi : AddressExchange::None);
  return {info, {}};
}

Claim read_mpich(const Context& context) {
  const Environment& env = context.env;
  LaunchInfo info;
  set_rank(info, env, env.has("PMI_RANK") ? "PMI_RANK" : "PMI_ID", "PMI_SIZE");
  // Hydra and Intel MPI use the first pair of names, PALS the second.
  if (env.has("MPI_LOCALRANKID")) {
    set_local(info, env, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  } else {
    set_local(info, env, "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE");
  }
  info.run_id = job_name(info, context, "mpich", "PMI_JOBID");
  set_exchange(
      info, env, has_pmi(env) ? AddressExchange::Pmi : AddressExchange::None);
  return {info, {}};
}

// `srun --mpi=pmi2` sets PMI_RANK and PMI_SIZE beside its own variables.
std::string disown_mpich(const Environment& env) {
  const bool hydra = env.has("MPI_LOCALRANKID") || env.has("PMI_LOCAL_RANK");
  const bool srun = env.has("SLURM_STEP_ID") && env.has("SLURM_PROCID") &&
      env.find("SLURM_PROCID") == env.find("PMI_RANK");
  return srun && !hydra ? "set by srun --mpi=pmi2, see slurm" : "";
}

} // namespace

Source openmpi_source() {
  return {
      .name = "openmpi",
      .marks = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      .needs = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      .read = read_openmpi};
}

Source mvapich_source() {
  return {
      .name = "mvapich",
      .marks = {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
      .needs = {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
      .read = read_mvapich};
}

Source mpich_source() {
  return {
      .name = "mpich",
      // With -pmi-port, Hydra tells the size only over its connection, so
      // PMI_SIZE must be set with -genv.
      .marks = {"PMI_RANK", "PMI_SIZE", "PMI_PORT"},
      .needs = {"PMI_RANK|PMI_ID", "PMI_SIZE"},
      .read = read_mpich,
      .disowned = disown_mpich};
}

} // namespace argosy::world
