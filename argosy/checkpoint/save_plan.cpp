#include "argosy/checkpoint/save_plan.h"

#include <optional>
#include <utility>

#include "argosy/checkpoint/state.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

std::string hash_text(const std::string& bytes) {
  return to_hex(hash_bytes(std::as_bytes(std::span(bytes))));
}

std::shared_ptr<const SavePlan> make_plan(
    const std::vector<std::string>& descriptions, int rank) {
  std::vector<Description> decoded;
  for (const std::string& bytes : descriptions) {
    decoded.push_back(decode_description(bytes));
  }
  auto plan = std::make_shared<SavePlan>();
  plan->inventory = take_inventory(decoded);
  const auto& [tensors, frozen, holdings, sources] = plan->inventory;
  WritePlan writes = plan_writes(tensors, holdings);
  for (int r = 0; r < rank; ++r) {
    plan->first_file += static_cast<std::uint32_t>(
        plan_files(tensors, frozen, writes[r], r).size());
  }
  plan->writes = std::move(writes[rank]);
  plan->files = plan_files(tensors, frozen, plan->writes, rank);
  return plan;
}

// Takes the steps off texts "HASH STEP".
void take_steps(std::vector<std::string>& texts) {
  std::vector<std::string> steps;
  for (std::string& text : texts) {
    const std::size_t space = text.find(' ');
    steps.push_back(text.substr(space + 1));
    text.resize(space);
  }
  for (std::size_t rank = 1; rank < steps.size(); ++rank) {
    if (steps[rank] != steps[0]) {
      throw CheckpointError(str_format(
          "[checkpoint.save] rank 0 saves step {} and rank {} step {}, "
          "expected one step on all ranks",
          steps[0],
          rank,
          steps[rank]));
    }
  }
}

} // namespace

SavePlanner::Prepared SavePlanner::prepare(
    State& state, const Ranks& ranks, std::int64_t step) {
  std::optional<Contents> contents;
  std::string description;
  std::vector<std::string> hashes = ranks.all_gather("save", [&] {
    contents = state.contents(ranks.rank());
    description = encode(describe(*contents));
    return str(hash_text(description), ' ', step);
  });
  take_steps(hashes);
  if (plan_ == nullptr || hashes != hashes_) {
    plan_ = nullptr;
    const auto all = ranks.all_gather("save", [&] { return description; });
    plan_ = make_plan(all, ranks.rank());
    hashes_ = std::move(hashes);
  }
  return {std::move(*contents), plan_};
}

} // namespace argosy::checkpoint
