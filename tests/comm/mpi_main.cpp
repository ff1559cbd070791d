// gtest on ranks that MPI started, which then have a world.

#include <gtest/gtest.h>

#include "argosy/comm/mpi.h"

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const auto world = argosy::mpi::init_parallel_env(
      MPI_COMM_WORLD, {.timeout = std::chrono::seconds(30)});
  ::testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  argosy::destroy_process_group();
  MPI_Finalize();
  return failed;
}
