#include "argosy/launch/worker_restarts.h"

#include <algorithm>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::launch {

namespace {

using std::chrono::milliseconds;

// A worker that lives for less has probably died of what kills it again.
constexpr std::chrono::seconds kYoung(5);
constexpr milliseconds kFirstPause(100);
constexpr milliseconds kLongestPause(10'000);

milliseconds pause_after(int young_deaths) {
  // The first death is most likely an accident, for which nobody should wait.
  if (young_deaths < 2) {
    return milliseconds(0);
  }
  constexpr int kMostDoublings = 7; // beyond it the pause is the longest
  return std::min(
      kLongestPause,
      kFirstPause * (1 << std::min(young_deaths - 2, kMostDoublings)));
}

} // namespace

std::optional<milliseconds> WorkerRestarts::on_death(
    int rank, const ProcessStatus& status, TimePoint started, TimePoint now) {
  if (total_ >= most_) {
    return std::nullopt;
  }
  History& history = by_rank_[rank];
  history.young_deaths = now - started < kYoung ? history.young_deaths + 1 : 0;
  ++history.causes[status.text()];
  ++history.restarts;
  ++total_;
  return pause_after(history.young_deaths);
}

int WorkerRestarts::count(int rank) const {
  const auto known = by_rank_.find(rank);
  return known == by_rank_.end() ? 0 : known->second.restarts;
}

std::string WorkerRestarts::causes_text() const {
  std::vector<std::string> ranks;
  for (const auto& [rank, history] : by_rank_) {
    std::vector<std::string> causes;
    for (const auto& [cause, times] : history.causes) {
      causes.push_back(times == 1 ? cause : str(cause, " (", times, " times)"));
    }
    ranks.push_back(str("rank ", rank, ": ", join(causes, ", ")));
  }
  return join(ranks, "; ");
}

} // namespace argosy::launch
