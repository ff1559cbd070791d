#pragma once

#include <vector>

#include "argosy/comm/backend/gather_strings.h"

namespace argosy::comm::hierarchy {

// The members of a group, by host. A host is a set of ranks that can map each
// other's memory; its first rank leads it. Hosts and ranks are in ascending
// order.
struct Hosts {
  std::vector<std::vector<int>> ranks;

  bool operator==(const Hosts&) const = default;

  int size() const { return static_cast<int>(ranks.size()); }
  int num_ranks() const;
  int host_of(int rank) const;
  int local_rank_of(int rank) const; // index among the ranks of its host
  std::vector<int> leaders() const;
};

// Partitions ranks into hosts: `sees[a][b]` is 1 if rank a can map memory of
// rank b. A rank joins the first host of which all ranks see it and are seen by
// it.
Hosts partition(const std::vector<std::vector<int>>& sees);

// Finds the hosts by trying to map memory. All members must call it; they come
// to the same answer.
Hosts find_hosts(int rank, const GatherStrings& gather_strings);

} // namespace argosy::comm::hierarchy
