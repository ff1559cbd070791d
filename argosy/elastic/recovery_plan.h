#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

// Where ranks that meet after a failure go on. Not installed.
namespace argosy::elastic {

// How many steps a rank has applied if it has no state: it has just started.
inline constexpr std::int64_t kNoState = -1;

// Ranks are at most one step apart. A rank applies a step only when it has what
// all ranks gave to the step's agreement, so when one has applied step k, all
// have given, and each of them has computed step k and has its gradients. And
// none has applied step k + 1: that takes the agreement of k + 1, to which a
// rank gives only after it has applied k.
struct RecoveryPlan {
  // How many steps all ranks will have applied; kNoState: nobody has a state,
  // all begin.
  std::int64_t step = kNoState;
  int source = -1;              // whose state newcomers get; -1: nobody has one
  std::vector<int> late{};      // have computed `step`, and apply it now
  std::vector<int> newcomers{}; // have no state

  bool operator==(const RecoveryPlan&) const = default;
};

std::ostream& operator<<(std::ostream& out, const RecoveryPlan& plan);

// Plans from the numbers of steps that the ranks have applied, by rank. A pure
// function. Throws InternalError if they are further apart than they can be.
RecoveryPlan plan_recovery(const std::vector<std::int64_t>& applied);

} // namespace argosy::elastic
