#pragma once

#include <optional>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

// The ranks of a world make a group by the same call with the same list. Keys
// in the group's part of the store find out if they do not. Not installed.
namespace argosy::comm {

// What one rank gave to new_group().
struct GroupList {
  int id = 0; // of the group
  int rank = 0;
  std::vector<int> ranks;
  std::string backend;
};

// Compares with the list of the rank that called first; does not wait for
// others. Throws InvalidArgument if they differ, and leaves word for the ranks
// that connect or will connect the group.
void check_same_list(c10d::Store& group_store, const GroupList& own);

// What a rank has found: the ranks that differ and their lists.
std::optional<std::string> difference_of_lists(c10d::Store& group_store);

} // namespace argosy::comm
