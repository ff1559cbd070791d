#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "argosy/common/process_status.h"

namespace argosy::launch {

// Whether and when a worker that died is started again alone (--restart-policy
// worker). A pure state machine: the caller tells the time.
class WorkerRestarts {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `most`: how often workers of this node may be started again, together.
  explicit WorkerRestarts(int most) : most_(most) {}

  // Worker `rank` died at `now`, having been started at `started`. Returns how
  // long to wait before it is started again: nothing at first, then longer and
  // longer while it dies young. None if it must not be: no restart is left.
  std::optional<std::chrono::milliseconds> on_death(
      int rank, const ProcessStatus& status, TimePoint started, TimePoint now);

  // How often a rank was started again.
  int count(int rank) const;
  int total() const { return total_; }
  int most() const { return most_; }

  // "rank 1: killed by signal 9 (SIGKILL) (3 times), exit code 1; rank 2: ...":
  // what workers that were started again had died of. Empty if none was.
  std::string causes_text() const;

 private:
  struct History {
    int restarts = 0;
    int young_deaths = 0; // one after the other
    std::map<std::string, int> causes;
  };

  const int most_;
  int total_ = 0;
  std::map<int, History> by_rank_;
};

} // namespace argosy::launch
