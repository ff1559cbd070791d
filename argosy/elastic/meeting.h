#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/elastic/recovery_plan.h"
#include "argosy/store/kv.h"

// Not installed.
namespace argosy::elastic {

// How the ranks met.
struct Met {
  std::int64_t epoch = 0;
  RecoveryPlan plan{};
  std::string records{}; // of the plan's source; empty if nobody has a state
  // All had finished before: there is nothing to do any more.
  bool is_over = false;

  bool operator==(const Met&) const = default;
};

// Where the ranks of a job meet, again after each failure: in a store that
// survives all of them. Worlds are numbered; each number is an epoch. Whoever
// finds that a rank is gone ends the epoch, and all meet in the next one.
//
// Keys: `epoch`, the current one; `<e>/came/<rank>`, which one process alone
// can take: a second one of that rank knows that the first is dead;
// `<e>/applied/<rank>`, with what it comes; `<e>/records`, those of the source;
// `finished/<rank>`. Nobody waits for an epoch that has ended.
//
// Thread-safe. Throws StoreError when the store is lost.
class Meeting {
 public:
  // Its keys begin with `space`, which is the job's own.
  Meeting(std::shared_ptr<store::Kv> kv, std::string space, int rank, int size);

  // Blocks until all ranks have come. `applied` and `records`: see
  // recovery_plan.h and Records. Throws TimeoutError, naming the ranks that did
  // not come; InvalidArgument when this rank has no state and all the others
  // have finished.
  Met meet(
      std::int64_t applied,
      const std::string& records,
      const Deadline& deadline);

  // Ends an epoch, once.
  void end(std::int64_t epoch);
  bool has_ended(std::int64_t epoch);

  // This rank needs the others no more. Blocks until that holds for all; false
  // if the epoch ends before. Throws TimeoutError, naming who still works.
  bool finish(std::int64_t epoch, const Deadline& deadline);

  // Counts how often this rank died after so many steps.
  std::int64_t count_death(std::int64_t step);

 private:
  std::int64_t current();
  bool comes_first(std::int64_t epoch);
  std::vector<std::int64_t> applied_in(std::int64_t epoch);
  bool all_come(std::int64_t epoch, const Deadline& deadline);
  bool get_records(Met& met, const std::string& own, const Deadline& deadline);
  std::vector<int> unfinished();
  std::string key(const std::string& name) const;
  std::string key(std::int64_t epoch, const std::string& name) const;

  const std::shared_ptr<store::Kv> kv_;
  const std::string space_;
  const int rank_;
  const int size_;
};

} // namespace argosy::elastic
