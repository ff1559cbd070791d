// The Open MPI side of bench/comm: times the cases in its argument.

#include <mpi.h>

#include <map>

#include "bench/comm_timing.h"

namespace {

using namespace argosy::bench;

std::function<void()> call_of(
    const CommCase& c, std::vector<float>& in, std::vector<float>& out) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int count = static_cast<int>(c.bytes / sizeof(float));
  const int part = count / size;
  float* data = in.data();
  float* other = out.data();
  const std::map<std::string, std::function<void()>> calls = {
      {"all_reduce",
       [=] {
         MPI_Allreduce(
             MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"broadcast",
       [=] { MPI_Bcast(data, count, MPI_FLOAT, 0, MPI_COMM_WORLD); }},
      {"all_gather",
       [=] {
         MPI_Allgather(
             data, part, MPI_FLOAT, other, part, MPI_FLOAT, MPI_COMM_WORLD);
       }},
      {"reduce_scatter",
       [=] {
         MPI_Reduce_scatter_block(
             data, other, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"all_to_all",
       [=] {
         MPI_Alltoall(
             data, part, MPI_FLOAT, other, part, MPI_FLOAT, MPI_COMM_WORLD);
       }},
  };
  return calls.at(c.op);
}

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const CommCase& c : parse_cases(argv[1])) {
    std::vector<float> in(c.bytes / sizeof(float) + 64);
    std::vector<float> out(c.bytes / sizeof(float) + 64);
    const double seconds = time_calls(
        c.bytes, call_of(c, in, out), [] { MPI_Barrier(MPI_COMM_WORLD); });
    if (rank == 0) {
      print_time("openmpi", c, seconds);
    }
  }
  MPI_Finalize();
  return 0;
}
