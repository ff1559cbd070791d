#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
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
// the group of different lists. Thread-safe. Not installed.
class MemberWatch {
 public:
  MemberWatch(Members members, WatchedStores stores);

  // Tells the other members that this one has come.
  void come();
  // Tells them that it has made one more step: all make the same ones.
  void advance();

  // InvalidArgument if ranks made the group of different lists, else null.
  std::exception_ptr difference_of_lists() const;

  // Why waiting is of no use; null if it may be of use. Asks the store about
  // members that have not come: call it once in an interval().
  std::exception_ptr trouble();

  // 100 ms, and more in large groups: all who wait ask about all who have not
  // come, and together no more than 20000 times a second.
  std::chrono::microseconds interval() const;

  // That the time is up, with the members that did not come, or that are behind
  // the others.
  std::exception_ptr time_is_up();

  // The same when not even the store answers; does not ask it.
  std::exception_ptr no_answer() const;

  // PeerLost if the group was aborted, else null. Does not ask the store.
  std::exception_ptr aborted() const;

  // Ends the waits of those who connect with this error.
  void give_up(std::exception_ptr error);
  // That error, or that of aborted(); null: go on. Does not ask the store.
  std::exception_ptr given_up() const;

  Deadline deadline() const { return members_.deadline; }

 private:
  std::vector<int> missing();
  std::vector<int> behind();
  std::optional<int> ended(int member);
  std::string ending_of(int rank);
  std::exception_ptr deaths();
  std::string text_of(const std::vector<int>& members) const;

  const Members members_;
  const WatchedStores stores_;
  std::atomic<int> num_steps_{0}; // of this member
  std::mutex mutex_;              // held while the store is asked
  // Guarded by mutex_.
  std::vector<bool> has_come_;         // asked only until it is true
  std::map<int, std::string> process_; // by member

  mutable std::mutex end_mutex_;
  std::exception_ptr end_; // guarded by end_mutex_
};

} // namespace argosy::comm
