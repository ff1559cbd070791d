// A solver that uses MPI and its own communicators trains with Argosy: rank 0
// writes files, the others average their gradients over the solver's
// communicator.
//
//   mpirun -n 3 ./solver
//
// prints, in any order:
//   writer: rank 0 of 3
//   solver 0 of 2: weight 2.00 by mpi
//   solver 1 of 2: weight 2.00 by mpi

#include <argosy/argosy.h>
#include <argosy/comm/mpi.h>
#include <torch/types.h>

#include <cstdio>

// Fits y = 2 x; each rank has its own points.
void learn(MPI_Comm solvers) {
  const auto world = argosy::mpi::init_parallel_env(solvers);
  const auto group = argosy::mpi::new_group(solvers);

  at::Tensor x = torch::arange(1, 5) + 4.0 * group->rank();
  at::Tensor weight = torch::zeros({1}, torch::requires_grad());
  for (int step = 0; step < 100; ++step) {
    (weight * x - 2 * x).square().mean().backward();
    argosy::all_reduce(weight.grad(), argosy::ReduceOp::AVG, group);
    torch::NoGradGuard guard;
    weight -= 0.01 * weight.grad();
    weight.grad().zero_();
  }
  std::printf(
      "solver %d of %d: weight %.2f by %s\n",
      group->rank(),
      group->nranks(),
      weight.item<double>(),
      argosy::get_backend(group).c_str());
  argosy::destroy_process_group();
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  MPI_Comm part;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, rank, &part);
  if (rank == 0) {
    std::printf("writer: rank 0 of %d\n", size);
  } else {
    learn(part);
  }
  MPI_Comm_free(&part);
  return MPI_Finalize();
}
