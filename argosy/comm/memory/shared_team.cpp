#include "argosy/comm/memory/shared_team.h"

#include <algorithm>
#include <new>
#include <optional>

#include "argosy/comm/memory/fetch.h"
#include "argosy/comm/memory/liveness.h"
#include "argosy/comm/memory/peers.h"
#include "argosy/comm/memory/pipes.h"
#include "argosy/comm/memory/team.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/rank_label.h"
#include "argosy/common/text.h"
#include "argosy/heap/heap.h"
#include "argosy/heap/heap_view.h"
#include "argosy/heap/shared_memory.h"

namespace argosy::comm::memory {

using heap::HeapView;
using heap::SharedMemory;

struct SharedTeam::Impl {
  // Destroyed in reverse order: what uses the regions goes first.
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
  // The rest of the region needs no construction: its pages are zero, as empty
  // pipes are.
  auto* control = new (&region_in(memory).control) Control();
  control->self = reinterpret_cast<std::uint64_t>(&control->self);
  fill_for_trials(region_in(memory));
  return memory;
}

// Maps the regions of all ranks. Returns why it cannot, or an empty text.
std::string map_all(
    std::optional<SharedMemory> own,
    int rank,
    const std::vector<std::string>& descriptions,
    std::vector<SharedMemory>& regions) {
  for (std::size_t peer = 0; peer < descriptions.size(); ++peer) {
    if (static_cast<int>(peer) == rank) {
      // Once: one of the ranks is ours.
      regions.push_back(std::move(*own)); // NOLINT(bugprone-use-after-move)
      continue;
    }
    if (descriptions[peer].empty()) {
      return str_format("rank {} has no memory to share", peer);
    }
    try {
      const int num_ranks = static_cast<int>(descriptions.size());
      regions.push_back(
          SharedMemory::open(descriptions[peer], Region::bytes(num_ranks)));
    } catch (const SystemError& error) {
      return str_format(
          "rank {} cannot see the memory of rank {}: {}",
          rank,
          peer,
          error.what());
    }
  }
  return "";
}

// What a rank tells of itself: the region and, if it has one, the heap.
constexpr char kThen = '|';

std::string introduction(const std::optional<SharedMemory>& region) {
  const heap::Heap* heap = heap::shared_heap();
  return str(
      region ? region->description() : "",
      kThen,
      heap == nullptr ? "" : heap->description());
}

// The heaps of all ranks; empty when one has none, or this process cannot map
// it. Then buffers are fetched or go through windows, so it is no error.
std::vector<std::shared_ptr<const HeapView>> see_heaps(
    const std::vector<std::string>& descriptions) {
  std::vector<std::shared_ptr<const HeapView>> heaps;
  try {
    for (const std::string& description : descriptions) {
      if (description.empty()) {
        return {};
      }
      heaps.push_back(HeapView::open(description));
    }
  } catch (const SystemError&) {
    return {};
  }
  return heaps;
}

// What a rank answers once it has tried. An ability counts only if all ranks
// have it: they choose their algorithms from it, and must choose alike.
constexpr char kFetches[] = " fetches";
constexpr char kFetchesFaster[] = " faster";
constexpr char kSees[] = " sees";

struct Abilities {
  bool fetch = true;
  bool fetch_faster = true; // than through windows
  bool see = true;
};

std::string answer(const std::string& problem, Abilities mine) {
  return problem.empty() ? str("ok",
                               mine.fetch ? kFetches : "",
                               mine.fetch_faster ? kFetchesFaster : "",
                               mine.see ? kSees : "")
                         : problem;
}

Abilities common_abilities(const std::vector<std::string>& answers) {
  Abilities all;
  for (const std::string& theirs : answers) {
    if (!theirs.starts_with("ok")) {
      throw SystemError(str("[comm.shm] ", theirs));
    }
    const auto has = [&](const char* ability) {
      return theirs.find(ability) != std::string::npos;
    };
    all.fetch = all.fetch && has(kFetches);
    all.fetch_faster = all.fetch_faster && has(kFetchesFaster);
    all.see = all.see && has(kSees);
  }
  return all;
}

bool can_fetch_from_all(const std::vector<SharedMemory>& regions) {
  return std::ranges::all_of(regions, [](const SharedMemory& region) {
    return can_fetch(region.owner(), region_in(region).control);
  });
}

// What the system refused this rank while `act` ran, for the others; empty:
// nothing.
template <typename Act>
std::string problem_of(int rank, const Act& act) {
  try {
    act();
    return "";
  } catch (const SystemError& error) {
    return str_format(
        "rank {} cannot share memory: {}",
        rank,
        without_rank_label(error.what()));
  }
}

// One peer stands for all.
bool fetches_faster(
    Fetching fetching, const std::vector<SharedMemory>& regions, int rank) {
  const auto next = static_cast<std::size_t>(rank + 1) % regions.size();
  const SharedMemory& region = regions[next];
  return fetching == Fetching::Always || region.same_process() ||
      is_fetch_faster(region.owner(), region_in(region));
}

// Threads of this process need no watching: they end with it.
std::vector<pid_t> watched_processes(const std::vector<SharedMemory>& regions) {
  std::vector<pid_t> processes;
  for (const SharedMemory& region : regions) {
    processes.push_back(region.same_process() ? -1 : region.owner());
  }
  return processes;
}

} // namespace

// Two exchanges of strings. In the first, the ranks publish how to map their
// memory; in the second, what worked. Only the second makes errors collective:
// a rank that cannot map another still answers, so that all throw the same.
SharedTeam::SharedTeam(
    std::string name,
    int rank,
    int size,
    const GatherStrings& gather_strings,
    const MemoryOptions& options)
    : impl_(new Impl) {
  // A rank that has no descriptor or memory left takes part all the same:
  // otherwise the others would wait for it.
  std::optional<SharedMemory> own;
  std::string problem = problem_of(rank, [&] {
    fault_point("memory.introduce");
    own.emplace(create_region(size));
  });
  // Before the first exchange: peers may fetch as soon as they know of us.
  let_siblings_fetch();
  std::vector<std::string> regions;
  std::vector<std::string> heaps;
  for (const std::string& theirs : gather_strings(introduction(own))) {
    const auto parts = split(theirs, kThen);
    regions.push_back(parts[0]);
    heaps.push_back(parts[1]);
  }
  ARGOSY_ASSERT(static_cast<int>(regions.size()) == size);
  if (problem.empty()) {
    problem = map_all(std::move(own), rank, regions, impl_->regions);
  }
  PeersSetup setup;
  Abilities mine{.fetch = false, .fetch_faster = false, .see = false};
  if (problem.empty()) {
    problem = problem_of(rank, [&] {
      fault_point("memory.mapped");
      setup.heaps = see_heaps(heaps);
      mine.see = !setup.heaps.empty();
      mine.fetch = options.fetching != Fetching::Never &&
          can_fetch_from_all(impl_->regions);
      mine.fetch_faster =
          mine.fetch && fetches_faster(options.fetching, impl_->regions, rank);
    });
  }
  // When this returns, all ranks have mapped our region; only then may we close
  // the descriptor through which they open it.
  const Abilities all = common_abilities(gather_strings(answer(problem, mine)));
  impl_->regions[static_cast<std::size_t>(rank)].close_way_in();
  impl_->liveness.emplace(watched_processes(impl_->regions));
  setup.name = std::move(name);
  setup.rank = rank;
  setup.numbers = options.numbers;
  setup.one_address_space = std::ranges::all_of(
      impl_->regions,
      [](const SharedMemory& region) { return region.same_process(); });
  for (const SharedMemory& region : impl_->regions) {
    setup.regions.push_back(&region_in(region));
    if (all.fetch) {
      setup.processes.push_back(region.owner());
    }
  }
  if (!all.see) {
    setup.heaps.clear();
  }
  setup.fetch_faster = all.fetch_faster;
  setup.liveness = &*impl_->liveness;
  setup.longest_guard = options.longest_guard;
  impl_->peers.emplace(std::move(setup));
  impl_->team.emplace(*impl_->peers);
  impl_->pipes.emplace(*impl_->peers);
}

SharedTeam::~SharedTeam() {
  Peers& all = peers();
  all.control(all.rank()).closed.store(true, std::memory_order_relaxed);
}

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
