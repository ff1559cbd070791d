#pragma once

// Argosy in programs that use MPI: the backend "mpi", and groups of the ranks
// of a communicator. Programs that include it need MPI; libargosy.so does not.
//
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
//   argosy::mpi::init_parallel_env(MPI_COMM_WORLD);
//   auto group = argosy::mpi::new_group(solver_communicator);
//   argosy::all_reduce(tensor, argosy::ReduceOp::AVG, group);
//   argosy::destroy_process_group();
//   MPI_Finalize();
//
// Start MPI with MPI_THREAD_MULTIPLE. MPI_THREAD_SERIALIZED is enough if the
// program calls MPI only while no operation of Argosy is running, or under
// calls_mutex(). The caller keeps its communicators: Argosy sends over one of
// its own.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "argosy/comm/connect.h"
#include "argosy/comm/group.h"
#include "argosy/comm/mpi/messenger.h"
#include "argosy/comm/mpi/mpi_backend.h"
#include "argosy/world/mpi.h"
#include "argosy/world/world.h"

namespace argosy::mpi {

using comm::mpi::calls_mutex;

namespace detail {

// The endpoint of a world.
struct Attachment {
  std::shared_ptr<comm::mpi::Endpoint> endpoint;
};

inline std::shared_ptr<Attachment> attachment_of(World& world) {
  return world.attached<Attachment>(
      [] { return std::make_shared<Attachment>(); });
}

// Collective: all ranks of `comm` throw when one of them has another rank.
inline void check_same_ranks(const World& world, MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int same = rank == world.rank() && size == world.size() ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, comm);
  ARGOSY_CHECK(
      same == 1,
      "[mpi.register_backend] rank {} of {} is rank {} of {} in the "
      "communicator, expected the ranks of the world: make the world with "
      "argosy::mpi::init_parallel_env(communicator)",
      world.rank(),
      world.size(),
      rank,
      size);
}

// The ranks of `comm` in the endpoint's communicator.
inline std::vector<int> translate_ranks(
    MPI_Comm comm, const comm::mpi::Endpoint& endpoint) {
  MPI_Group theirs;
  MPI_Group ours;
  MPI_Comm_group(comm, &theirs);
  MPI_Comm_group(endpoint.comm(), &ours);
  int size = 0;
  MPI_Group_size(theirs, &size);
  std::vector<int> from(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    from[static_cast<std::size_t>(rank)] = rank;
  }
  std::vector<int> to(from.size());
  MPI_Group_translate_ranks(theirs, size, from.data(), ours, to.data());
  MPI_Group_free(&theirs);
  MPI_Group_free(&ours);
  return to;
}

// A group has the order of the world.
inline void check_order(const std::vector<int>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ARGOSY_CHECK(
        ranks[i] != MPI_UNDEFINED,
        "[mpi.new_group] rank {} of the communicator is not in the world",
        i);
    ARGOSY_CHECK(
        i == 0 || ranks[i - 1] < ranks[i],
        "[mpi.new_group] ranks {} and {} of the communicator are ranks {} and "
        "{} of the world, expected the order of the world: split with its rank "
        "as key",
        i - 1,
        i,
        ranks[i - 1],
        ranks[i]);
  }
}

inline int broadcast_number(MPI_Comm comm, World& world) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  const int own =
      rank == 0 ? static_cast<int>(comm::mpi::take_number(world)) : 0;
  return argosy::detail::broadcast_size(comm, own);
}

} // namespace detail

// Registers the backend "mpi" for the groups of a world, whose ranks must be
// those of `comm`. Collective over `comm`. Throws InvalidArgument, on all
// ranks, if the ranks differ or MPI does not support threads.
inline void register_backend(World& world, MPI_Comm comm) {
  comm::mpi::check_running();
  detail::check_same_ranks(world, comm);
  auto endpoint = comm::mpi::Endpoint::make(comm);
  const auto network = comm::mpi::make_network(
      world, [endpoint](std::uint64_t channel, const comm::Members& members) {
        return std::make_unique<comm::mpi::MpiMessenger>(
            endpoint, channel, members.group, members.global_ranks);
      });
  comm::register_backend(world, "mpi", comm::mpi::make_backend(network));
  comm::set_network(world, network);
  detail::attachment_of(world)->endpoint = std::move(endpoint);
}

// Makes a world of the ranks of `comm`, with the same ranks, and registers the
// backend "mpi". Collective over `comm`.
inline std::shared_ptr<World> init_parallel_env(
    MPI_Comm comm, const InitOptions& options = {}) {
  comm::mpi::check_running();
  auto world = init_from_mpi(comm, options);
  if (!detail::attachment_of(*world)->endpoint) {
    register_backend(*world, comm);
  }
  return world;
}

// Makes a group of the ranks of `comm` in the calling thread's world, with the
// backend "mpi". Collective over `comm` alone, unlike argosy::new_group(). The
// caller owns the group; get_group() does not find it. Returns null for
// MPI_COMM_NULL. Throws InvalidArgument, on all ranks, if their order is not
// the world's.
inline std::shared_ptr<Group> new_group(
    MPI_Comm comm,
    std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
  if (comm == MPI_COMM_NULL) {
    return nullptr;
  }
  constexpr int kFirstId = 1000000; // apart from those of argosy::new_group()
  const auto world = require_world("mpi.new_group");
  const auto endpoint = detail::attachment_of(*world)->endpoint;
  ARGOSY_CHECK(
      endpoint != nullptr,
      "[mpi.new_group] the world has no MPI: make it with "
      "argosy::mpi::init_parallel_env(communicator)");
  auto ranks = detail::translate_ranks(comm, *endpoint);
  detail::check_order(ranks);
  auto group = std::make_shared<Group>(
      *world,
      Group::Setup{
          .id = kFirstId + detail::broadcast_number(comm, *world),
          .ranks = std::move(ranks),
          .backend = "mpi",
          .timeout = timeout.value_or(world->timeout())});
  world->on_abort([weak = std::weak_ptr(group)](const std::string& reason) {
    if (const auto alive = weak.lock()) {
      alive->abort(reason);
    }
  });
  return group;
}

} // namespace argosy::mpi
