#include "argosy/expert/all_to_all_plan.h"

#include <algorithm>
#include <numeric>
#include <ostream>

#include "argosy/common/error.h"

namespace argosy::expert {

namespace {

using Counts = std::vector<std::int64_t>;

std::int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void check_counts(const Counts& counts, std::size_t size) {
  ARGOSY_CHECK(
      counts.size() == size,
      "[expert] {} counts of rows, expected {}",
      counts.size(),
      size);
  for (const std::int64_t count : counts) {
    ARGOSY_CHECK(
        count >= 0, "[expert] a count of rows is {}, expected >= 0", count);
  }
}

// `sizes[r]` of the counts are those of rank r.
Counts sums_by_rank(const Counts& counts, const Counts& sizes) {
  Counts sums;
  auto begin = counts.begin();
  for (const std::int64_t size : sizes) {
    sums.push_back(sum_of({begin, begin + size}));
    begin += size;
  }
  return sums;
}

// Reorders from (rank, expert), as rows arrive, to (expert, rank), so that the
// rows of an expert are one matrix. Within an expert rows stay in rank order.
// Empty if no row moves, as with one expert on each rank, so that the copy is
// skipped.
std::vector<RowBlock> blocks_of(const Counts& counts, std::size_t experts) {
  Counts begins(counts.size());
  std::exclusive_scan(
      counts.begin(), counts.end(), begins.begin(), std::int64_t{0});
  std::vector<RowBlock> blocks;
  std::int64_t to = 0;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    for (std::size_t i = expert; i < counts.size(); i += experts) {
      if (counts[i] > 0) {
        blocks.push_back({begins[i], to, counts[i]});
        to += counts[i];
      }
    }
  }
  const bool moves = std::ranges::any_of(
      blocks, [](const RowBlock& block) { return block.from != block.to; });
  return moves ? blocks : std::vector<RowBlock>();
}

void print(std::ostream& out, const char* name, const Counts& counts) {
  out << name;
  for (const std::int64_t count : counts) {
    out << " " << count;
  }
}

} // namespace

std::int64_t AllToAllPlan::num_sent() const {
  return sum_of(sends);
}

std::int64_t AllToAllPlan::num_received() const {
  return sum_of(receives);
}

std::ostream& operator<<(std::ostream& out, const AllToAllPlan& plan) {
  print(out, "sends", plan.sends);
  print(out, "; receives", plan.receives);
  print(out, "; experts", plan.expert_rows);
  out << "; moves";
  for (const RowBlock& block : plan.blocks) {
    out << " " << block.rows << ":" << block.from << "->" << block.to;
  }
  return out;
}

AllToAllPlan plan_all_to_all(
    const Counts& local_count,
    const Counts& global_count,
    const Member& member) {
  ARGOSY_CHECK(
      !local_count.empty(), "[expert] no counts of rows, expected some");
  const auto all = static_cast<std::int64_t>(local_count.size());
  const auto experts = static_cast<std::size_t>(experts_of(all, member).size);
  const auto ranks = static_cast<std::size_t>(member.ranks);
  check_counts(local_count, local_count.size());
  check_counts(global_count, experts * ranks);
  AllToAllPlan plan{
      sums_by_rank(local_count, experts_by_rank(all, member.ranks)),
      sums_by_rank(
          global_count, Counts(ranks, static_cast<std::int64_t>(experts))),
      blocks_of(global_count, experts),
      Counts(experts)};
  for (std::size_t i = 0; i < global_count.size(); ++i) {
    plan.expert_rows[i % experts] += global_count[i];
  }
  return plan;
}

} // namespace argosy::expert
