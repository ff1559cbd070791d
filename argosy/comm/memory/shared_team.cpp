#include "argosy/comm/memory/shared_team.h"

#include <algorithm>
#include <new>
#include <optional>

#include "argosy/comm/memory/fetch.h"
#include "argosy/comm/memory/liveness.h"
#include "argosy/comm/memory/peers.h"
#include "argosy/comm/memory/pipes.h"
#include "argosy/comm/memory/shared_memory.h"
#include "argosy/comm/memory/team.h"
#include "argosy/common/error.h"

namespace argosy::comm::memory {

struct SharedTeam::Impl {
  std::vector<SharedMemory> regions; // of all ranks
  std::optional<Liveness> liveness;
  std::optional<Peers> peers;
  std::optional<Team> team;
  std::optional<Pipes> pipes;
};

namespace {

Region& region_in(const SharedMemory& memory) {
  return *reinterpret_cast<Region*>(memory.get());
}

SharedMemory create_region(int num_ranks) {
  SharedMemory memory = SharedMemory::create(Region::bytes(num_ranks));
  auto* control = new (&region_in(memory).control) Control();
  control->self = reinterpret_cast<std::uint64_t>(control);
  return memory;
}

// Maps the regions of all ranks. Returns why it cannot, or an empty text.
std::string map_all(
    SharedMemory own,
    int rank,
    const std::vector<std::string>& descriptions,
    std::vector<SharedMemory>& regions) {
  for (std::size_t peer = 0; peer < descriptions.size(); ++peer) {
    if (static_cast<int>(peer) == rank) {
      // Once: one of the ranks is ours.
      regions.push_back(std::move(own)); // NOLINT(bugprone-use-after-move)
      continue;
    }
    try {
      const int num_ranks = static_cast<int>(descriptions.size());
      regions.push_back(
          SharedMemory::open(descriptions[peer], Region::bytes(num_ranks)));
    } catch (const SystemError& error) {
      return str(
          "rank ",
          rank,
          " cannot see the memory of rank ",
          peer,
          ": ",
          error.what());
    }
  }
  return "";
}

constexpr char kCanFetch[] = "can fetch";

bool can_fetch_from_all(const std::vector<SharedMemory>& regions) {
  return std::all_of(
      regions.begin(), regions.end(), [](const SharedMemory& region) {
        return can_fetch(region.owner(), region_in(region).control);
      });
}

std::vector<pid_t> watched_processes(const std::vector<SharedMemory>& regions) {
  std::vector<pid_t> processes;
  for (const SharedMemory& region : regions) {
    processes.push_back(region.same_process() ? -1 : region.owner());
  }
  return processes;
}

} // namespace

SharedTeam::SharedTeam(
    std::string name,
    int rank,
    int size,
    const GatherTexts& gather_texts,
    bool may_fetch)
    : impl_(new Impl) {
  SharedMemory own = create_region(size);
  let_siblings_fetch();
  const auto descriptions = gather_texts(own.description());
  ARGOSY_ASSERT(static_cast<int>(descriptions.size()) == size);
  const std::string problem =
      map_all(std::move(own), rank, descriptions, impl_->regions);
  // All must have mapped our region before its way in closes; and what one
  // cannot do, all must know.
  const std::string ability =
      problem.empty() && may_fetch && can_fetch_from_all(impl_->regions)
      ? kCanFetch
      : "";
  bool all_fetch = true;
  for (const std::string& theirs :
       gather_texts(problem.empty() ? ability : problem)) {
    if (!theirs.empty() && theirs != kCanFetch) {
      throw SystemError(str("[comm.shm] ", theirs));
    }
    all_fetch = all_fetch && theirs == kCanFetch;
  }
  impl_->regions[static_cast<std::size_t>(rank)].close_way_in();
  impl_->liveness.emplace(watched_processes(impl_->regions));
  PeersSetup setup;
  setup.name = std::move(name);
  setup.rank = rank;
  setup.one_address_space = std::all_of(
      impl_->regions.begin(),
      impl_->regions.end(),
      [](const SharedMemory& region) { return region.same_process(); });
  for (const SharedMemory& region : impl_->regions) {
    setup.regions.push_back(&region_in(region));
    if (all_fetch) {
      setup.processes.push_back(region.owner());
    }
  }
  setup.is_dead = [this](int peer) { return impl_->liveness->is_dead(peer); };
  impl_->peers.emplace(std::move(setup));
  impl_->team.emplace(*impl_->peers);
  impl_->pipes.emplace(*impl_->peers);
}

SharedTeam::~SharedTeam() = default;

Peers& SharedTeam::peers() const {
  return *impl_->peers;
}
Team& SharedTeam::team() const {
  return *impl_->team;
}
Pipes& SharedTeam::pipes() const {
  return *impl_->pipes;
}

} // namespace argosy::comm::memory
