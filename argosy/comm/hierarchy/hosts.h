#pragma once

#include <vector>

#include "argosy/comm/backend/gather_strings.h"

namespace argosy::comm::hierarchy {

// The members of a group, by host: those that can map each other's memory. The
// first of each host leads it. Hosts and their ranks are in ascending order.
struct Hosts {
  std::vector<std::vector<int>> ranks;

  bool operator==(const Hosts&) const = default;

  int size() const { return static_cast<int>(ranks.size()); }
  int num_ranks() const;
  int host_of(int rank) const;
  int local_rank_of(int rank) const; // among those of its host
  std::vector<int> leaders() const;
};

// Hosts from who sees whom: `sees[a][b]` is 1 when rank a can map memory of
// rank b. A rank joins the first host whose ranks all see it and are seen.
Hosts partition(const std::vector<std::vector<int>>& sees);

// Finds the hosts by trying. All members call it and come to the same answer.
Hosts find_hosts(int rank, const GatherStrings& gather_strings);

} // namespace argosy::comm::hierarchy
