#pragma once

// Joins the ranks of an MPI communicator. Only the program that includes this
// header needs MPI; libargosy.so works with every MPI.

#include <mpi.h>

#include <string>

#include "argosy/common/error.h"
#include "argosy/world/init.h"

namespace argosy {

namespace detail {

inline int broadcast_size(MPI_Comm comm, int size) {
  MPI_Bcast(&size, 1, MPI_INT, 0, comm);
  return size;
}

inline std::string broadcast_text(MPI_Comm comm, std::string text) {
  text.resize(broadcast_size(comm, static_cast<int>(text.size())));
  MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, comm);
  return text;
}

} // namespace detail

// Makes a world of the ranks of `comm`, with the same numbers. Collective over
// `comm`, which is only used during the call. MPI must be initialized.
inline std::shared_ptr<World> init_from_mpi(
    MPI_Comm comm, const InitOptions& options = {}) {
  int ready = 0;
  MPI_Initialized(&ready);
  ARGOSY_CHECK(ready != 0, "[world.init] MPI_Init has not been called");
  LaunchInfo info;
  info.source = "mpi";
  MPI_Comm_rank(comm, &info.rank);
  MPI_Comm_size(comm, &info.size);
  MPI_Comm local;
  MPI_Comm_split_type(
      comm, MPI_COMM_TYPE_SHARED, info.rank, MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &info.local_rank);
  MPI_Comm_size(local, &info.local_size);
  MPI_Comm_free(&local);
  // With several hosts, ranks find out in the store which of them share one.
  int first = info.local_rank == 0 ? 1 : 0;
  MPI_Allreduce(&first, &info.num_nodes, 1, MPI_INT, MPI_SUM, comm);
  info.knows_local = info.num_nodes == 1;
  return init(
      info,
      [comm](const std::string& own) {
        return detail::broadcast_text(comm, own);
      },
      options);
}

} // namespace argosy
