#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/backend/members.h"

namespace argosy::comm {

// Where a rank can ask; null: not known.
struct WatchedStores {
  c10::intrusive_ptr<c10d::Store> world = {}; // farewells, processes of ranks
  c10::intrusive_ptr<c10d::Store> lists = {}; // that of group_lists.h
};

// What a rank finds out about the other members of a group while it waits for
// them to connect: who has not come, who never will, and that ranks have made
// the group of different lists. Not installed.
class MemberWatch {
 public:
  // Tells the other members that this one has come.
  MemberWatch(Members members, WatchedStores stores);

  // InvalidArgument if ranks made the group of different lists, else null.
  std::exception_ptr difference_of_lists() const;

  // Why waiting is of no use; null if it may be of use. Asks the store about
  // members that have not come: call it once in an interval().
  std::exception_ptr trouble();

  // 100 ms, and more in large groups: all who wait ask about all who have not
  // come, and together no more than 20000 times a second.
  std::chrono::microseconds interval() const;

  // That the time is up, with the members that did not come.
  std::exception_ptr time_is_up();

  Deadline deadline() const { return members_.deadline; }

 private:
  std::vector<int> missing();
  std::exception_ptr ended(int member);
  std::string text_of(const std::vector<int>& members) const;

  const Members members_;
  const WatchedStores stores_;
  std::vector<bool> has_come_;         // asked only until it is true
  std::map<int, std::string> process_; // by member
};

} // namespace argosy::comm
