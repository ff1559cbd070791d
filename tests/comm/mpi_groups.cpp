// The ranks of mpi_test that have a world: run the case that the argument
// names.

#include <signal.h>
#include <torch/types.h>

#include <functional>
#include <iostream>
#include <map>

#include "argosy/argosy.h"
#include "argosy/comm/mpi.h"
#include "tests/comm/mpi_cases.h"

namespace {

using namespace argosy;
using namespace argosy::testing;

// Sums the global ranks of a group, three ways.
void check_sums(const GroupPtr& group) {
  std::int64_t expected = 0;
  for (const int rank : group->ranks()) {
    expected += rank;
  }
  for (const std::int64_t count : {1, 3000, 300000}) {
    at::Tensor sum = torch::full({count}, get_rank());
    all_reduce(sum, ReduceOp::SUM, group);
    ARGOSY_CHECK(
        torch::equal(sum, torch::full({count}, expected)), "sum of ", count);
  }
  at::Tensor later = torch::full({5}, get_rank());
  all_reduce(later, ReduceOp::SUM, group, false)->wait();
  ARGOSY_CHECK(later[4].item<std::int64_t>() == expected, "asynchronous sum");
}

// Every rank passes its half of the communicator, at the same time.
void case_split() {
  const auto world = mpi::init_parallel_env(MPI_COMM_WORLD);
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, world->rank() % 2, world->rank(), &half);
  const auto group = mpi::new_group(half);
  MPI_Comm_free(&half);
  ARGOSY_CHECK(get_backend(group) == "mpi", get_backend(group));
  for (const int rank : group->ranks()) {
    ARGOSY_CHECK(rank % 2 == world->rank() % 2, "rank ", rank);
  }
  check_sums(group);
  check_sums(new_group({}, "mpi"));
  check_sums(get_group()); // by shared memory
  if (group->nranks() > 1 && group->rank() < 2) {
    at::Tensor ours = torch::full({7}, world->rank());
    at::Tensor theirs = torch::zeros({7}, torch::kLong);
    const int peer =
        group->ranks()[static_cast<std::size_t>(1 - group->rank())];
    const auto sent = isend(ours, peer, group);
    recv(theirs, peer, group);
    sent->wait();
    ARGOSY_CHECK(theirs[6].item<int>() == peer, "of rank ", peer);
  }
}

// The world is a part of the communicator; the others do something else.
void case_part() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm part;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, rank, &part);
  if (part == MPI_COMM_NULL) {
    return;
  }
  const auto world = mpi::init_parallel_env(part);
  ARGOSY_CHECK(world->rank() == rank - 1, world->rank());
  check_sums(new_group({}, "mpi"));
  ARGOSY_CHECK(mpi::new_group(MPI_COMM_NULL) == nullptr, "a group of nobody");
  expect_error<InvalidArgument>(
      "rank 0 of the communicator is not in the world",
      [] { mpi::new_group(MPI_COMM_WORLD); });
}

void case_order() {
  const auto world = mpi::init_parallel_env(MPI_COMM_WORLD);
  MPI_Comm backwards;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world->rank(), &backwards);
  expect_error<InvalidArgument>(
      "ranks 0 and 1 of the communicator are ranks 2 and 1 of the world, "
      "expected the order of the world",
      [&] { mpi::new_group(backwards); });
}

// A world that the launcher's variables made, then MPI.
void case_adopted() {
  const auto world = init_parallel_env();
  expect_error<InvalidArgument>(
      "the world has no MPI", [] { mpi::new_group(MPI_COMM_WORLD); });
  expect_error<InvalidArgument>(
      "no backend \"mpi\"", [] { new_group({}, "mpi"); });
  MPI_Comm backwards;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world->rank(), &backwards);
  expect_error<InvalidArgument>("expected the ranks of the world", [&] {
    mpi::register_backend(*world, backwards);
  });
  mpi::register_backend(*world, MPI_COMM_WORLD);
  check_sums(new_group({}, "mpi"));
}

// Ranks that do not all see each other's memory, as on several hosts.
void case_hosts() {
  const auto world = mpi::init_parallel_env(MPI_COMM_WORLD);
  const auto group = get_group();
  check_sums(group);
  ARGOSY_CHECK(get_backend(group) == "auto:shm+mpi", get_backend(group));
  const int n = world->size();
  const at::Tensor mine = torch::full({2}, world->rank());
  at::Tensor all = torch::empty({n, 2}, torch::kLong);
  all_gather(all, mine, group);
  at::Tensor swapped = torch::empty({n}, torch::kLong);
  alltoall_single(swapped, torch::full({n}, world->rank()));
  const at::Tensor ranks = torch::arange(n);
  ARGOSY_CHECK(torch::equal(all.select(1, 1), ranks), all);
  ARGOSY_CHECK(torch::equal(swapped, ranks), swapped);
}

// The communicator keeps its own messages while ours go.
void case_beside() {
  const auto world = mpi::init_parallel_env(MPI_COMM_WORLD);
  const auto group = mpi::new_group(MPI_COMM_WORLD);
  at::Tensor sum = torch::ones({1 << 20});
  for (int i = 0; i < 5; ++i) {
    const auto work = all_reduce(sum, ReduceOp::AVG, group, false);
    int number = world->rank();
    MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    ARGOSY_CHECK(number == world->size() - 1, number);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(
        &number,
        1,
        MPI_INT,
        MPI_ANY_SOURCE,
        MPI_ANY_TAG,
        MPI_COMM_WORLD,
        &request);
    const int next = (world->rank() + 1) % world->size();
    MPI_Send(&next, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ARGOSY_CHECK(number == world->rank(), number);
    work->wait();
  }
  ARGOSY_CHECK(torch::equal(sum, torch::ones({1 << 20})), "average");
}

void case_abort() {
  const auto world = mpi::init_parallel_env(MPI_COMM_WORLD);
  const auto group = mpi::new_group(MPI_COMM_WORLD);
  check_sums(group);
  if (world->rank() == 1) {
    world->abort("disk full");
  }
  expect_error<PeerLost>("disk full", [&] { barrier(group); });
  check_sums(mpi::new_group(MPI_COMM_WORLD));
}

void case_timeout() {
  const auto world = mpi::init_parallel_env(MPI_COMM_WORLD);
  const auto group =
      mpi::new_group(MPI_COMM_WORLD, std::chrono::milliseconds(500));
  check_sums(group);
  if (world->rank() != 1) {
    expect_error<TimeoutError>("rank 1 of group", [&] { barrier(group); });
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Without destroy_process_group().
void case_finalize() {
  const auto world = mpi::init_parallel_env(MPI_COMM_WORLD);
  const auto group = mpi::new_group(MPI_COMM_WORLD);
  check_sums(group);
  MPI_Finalize();
  expect_error<PeerLost>("MPI was finalized", [&] { barrier(group); });
}

void case_killed() {
  const auto world = mpi::init_parallel_env(MPI_COMM_WORLD);
  const auto group = mpi::new_group(MPI_COMM_WORLD);
  for (int i = 0;; ++i) {
    if (world->rank() == 1 && i == 5) {
      ::raise(SIGKILL);
    }
    check_sums(group);
  }
}

// Each case has a world of its own.
std::function<void()> with_world(void (*run)()) {
  return [run] {
    run();
    destroy_process_group();
  };
}

} // namespace

int main(int argc, char** argv) {
  return run_mpi_case(
      argc,
      argv,
      {{"split", with_world(case_split)},
       {"part", with_world(case_part)},
       {"order", with_world(case_order)},
       {"adopted", with_world(case_adopted)},
       {"beside", with_world(case_beside)},
       {"hosts", with_world(case_hosts)},
       {"abort", with_world(case_abort)},
       {"timeout", with_world(case_timeout)},
       {"finalize", with_world(case_finalize)},
       {"killed", with_world(case_killed)}});
}
