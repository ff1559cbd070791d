#include "argosy/checkpoint/inspect/prune_plan.h"

#include <algorithm>
#include <ostream>
#include <set>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::checkpoint {

namespace {

bool keeps_anything(const KeepPolicy& keep) {
  return keep.last > 0 || keep.every > 0 || keep.best > 0;
}

class PrunePlanner {
 public:
  PrunePlanner(
      const std::vector<CheckpointEntry>& entries, const PrunePolicy& policy)
      : policy_(policy) {
    std::vector<Rated> rated;
    bool has_metric = false;
    for (const CheckpointEntry& entry : entries) {
      if (entry.good()) {
        newest_ = entry.step;
        rated.push_back(
            {entry.step, training_value(entry.values, policy.keep.metric)});
        has_metric = has_metric || rated.back().metric;
      }
    }
    ARGOSY_CHECK(
        policy.keep.best <= 0 || has_metric,
        "[checkpoint.prune] no checkpoint has the value \"{}\"",
        policy.keep.metric);
    KeepPolicy keep = policy.keep;
    keep.last = std::max(keep.last, 1);
    if (keeps_anything(policy.keep)) {
      const auto steps = superfluous(std::move(rated), keep);
      superfluous_.insert(steps.begin(), steps.end());
    }
  }

  // Why it stays; empty if it goes.
  std::string reason(const CheckpointEntry& entry) const {
    if (!entry.committed) {
      return reason_uncommitted(entry);
    }
    if (!entry.problem.empty()) {
      return "damaged: " + entry.problem;
    }
    if (entry.step == newest_) {
      return "the newest good one";
    }
    if (entry.named) {
      return "named by latest";
    }
    return superfluous_.count(entry.step) == 0 ? "by the policy" : "";
  }

 private:
  std::string reason_uncommitted(const CheckpointEntry& entry) const {
    const bool older = newest_ && entry.step < *newest_;
    if (policy_.uncommitted && older) {
      return "";
    }
    return older ? "not committed" : "not committed, may still be written";
  }

  const PrunePolicy& policy_;
  std::optional<std::int64_t> newest_; // step of the newest good one
  std::set<std::int64_t> superfluous_; // steps
};

} // namespace

std::ostream& operator<<(std::ostream& out, const PruneDecision& decision) {
  return out << (decision.keep ? "keep " : "remove ") << decision.name
             << (decision.reason.empty() ? "" : ": ") << decision.reason;
}

std::vector<PruneDecision> plan_prune(
    const std::vector<CheckpointEntry>& entries, const PrunePolicy& policy) {
  ARGOSY_CHECK(
      keeps_anything(policy.keep) || policy.uncommitted,
      "[checkpoint.prune] no policy, expected --last, --every, --best-by or "
      "--uncommitted");
  const PrunePlanner planner(entries, policy);
  std::vector<PruneDecision> decisions;
  for (const CheckpointEntry& entry : entries) {
    std::string reason = planner.reason(entry);
    decisions.push_back({entry.name, !reason.empty(), std::move(reason)});
  }
  return decisions;
}

std::optional<double> training_value(
    const nlohmann::json& values, const std::string& path) {
  const nlohmann::json* at = &values;
  for (const std::string& key : split(path, '.')) {
    if (!at->is_object() || !at->contains(key)) {
      return std::nullopt;
    }
    at = &(*at)[key];
  }
  return at->is_number() ? std::optional(at->get<double>()) : std::nullopt;
}

} // namespace argosy::checkpoint
