#include "argosy/comm/hierarchy/hosts.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/heap/shared_memory.h"

namespace argosy::comm::hierarchy {

namespace {

constexpr std::size_t kProbeBytes = 4096; // a page: just to be mapped

bool can_open(const std::string& description) {
  try {
    heap::SharedMemory::open(description, kProbeBytes);
    return true;
  } catch (const SystemError&) {
    return false;
  }
}

} // namespace

int Hosts::num_ranks() const {
  int count = 0;
  for (const auto& members : ranks) {
    count += static_cast<int>(members.size());
  }
  return count;
}

int Hosts::host_of(int rank) const {
  for (int host = 0; host < size(); ++host) {
    const auto& members = ranks[static_cast<std::size_t>(host)];
    if (std::ranges::find(members, rank) != members.end()) {
      return host;
    }
  }
  ARGOSY_ASSERT(false, rank);
  return -1;
}

int Hosts::local_rank_of(int rank) const {
  const auto& members = ranks[static_cast<std::size_t>(host_of(rank))];
  return static_cast<int>(std::ranges::find(members, rank) - members.begin());
}

std::vector<int> Hosts::leaders() const {
  std::vector<int> first;
  for (const auto& members : ranks) {
    first.push_back(members.front());
  }
  return first;
}

// Greedy, and from the same matrix on every rank, so all get the same hosts.
Hosts partition(const std::vector<std::vector<int>>& sees) {
  Hosts hosts;
  const auto mutual = [&](int a, int b) {
    const auto i = static_cast<std::size_t>(a);
    const auto j = static_cast<std::size_t>(b);
    return sees[i][j] != 0 && sees[j][i] != 0;
  };
  for (int rank = 0; rank < static_cast<int>(sees.size()); ++rank) {
    const auto fits = [&](const std::vector<int>& members) {
      return std::ranges::all_of(
          members, [&](int member) { return mutual(rank, member); });
    };
    const auto host = std::ranges::find_if(hosts.ranks, fits);
    if (host == hosts.ranks.end()) {
      hosts.ranks.push_back({rank});
    } else {
      host->push_back(rank);
    }
  }
  return hosts;
}

Hosts find_hosts(int rank, const GatherStrings& gather_strings) {
  const auto own = heap::SharedMemory::create(kProbeBytes);
  std::string visible;
  const auto descriptions = gather_strings(own.description());
  for (std::size_t peer = 0; peer < descriptions.size(); ++peer) {
    const bool itself = static_cast<int>(peer) == rank;
    visible += itself || can_open(descriptions[peer]) ? '1' : '0';
  }
  // Ours stays open until all have tried it.
  std::vector<std::vector<int>> sees;
  for (const std::string& theirs : gather_strings(visible)) {
    sees.emplace_back();
    for (const char flag : theirs) {
      sees.back().push_back(flag == '1' ? 1 : 0);
    }
  }
  return partition(sees);
}

} // namespace argosy::comm::hierarchy
