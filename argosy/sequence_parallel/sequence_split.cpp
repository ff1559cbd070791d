#include "argosy/sequence_parallel/sequence_split.h"

#include <algorithm>
#include <numeric>
#include <ostream>

#include "argosy/common/error.h"

namespace argosy {

namespace {

// Segments of equal size; the first ones may be longer by one.
std::vector<Segment> cut(std::int64_t total, int count) {
  ARGOSY_CHECK(
      total >= 0 && count > 0,
      "[sequence_parallel] {} positions in {} parts, expected at least 0 in at "
      "least 1",
      total,
      count);
  std::vector<Segment> parts;
  std::int64_t begin = 0;
  for (int i = 0; i < count; ++i) {
    parts.push_back({begin, total / count + (i < total % count ? 1 : 0)});
    begin = parts.back().end();
  }
  return parts;
}

std::int64_t length_of(const std::vector<Segment>& segments) {
  return std::accumulate(
      segments.begin(),
      segments.end(),
      std::int64_t{0},
      [](std::int64_t sum, const Segment& each) { return sum + each.size; });
}

} // namespace

std::ostream& operator<<(std::ostream& out, const Segment& segment) {
  return out << "[" << segment.begin << ", " << segment.end() << ")";
}

std::int64_t SequenceSplit::length(int rank) const {
  return length_of(of_rank.at(rank));
}

std::int64_t SequenceSplit::total() const {
  std::int64_t sum = 0;
  for (const auto& segments : of_rank) {
    sum += length_of(segments);
  }
  return sum;
}

std::vector<std::int64_t> SequenceSplit::positions(int rank) const {
  std::vector<std::int64_t> all;
  for (const Segment& segment : of_rank.at(rank)) {
    for (std::int64_t i = segment.begin; i < segment.end(); ++i) {
      all.push_back(i);
    }
  }
  return all;
}

SequenceSplit contiguous_split(std::int64_t total, int nranks) {
  SequenceSplit split;
  for (const Segment& part : cut(total, nranks)) {
    split.of_rank.push_back({part});
  }
  return split;
}

SequenceSplit zigzag_split(std::int64_t total, int nranks) {
  const std::vector<Segment> chunks = cut(total, 2 * nranks);
  SequenceSplit split;
  for (int i = 0; i < nranks; ++i) {
    split.of_rank.push_back({chunks[i], chunks[2 * nranks - 1 - i]});
  }
  return split;
}

std::vector<std::int64_t> zigzag_positions(
    std::int64_t total, int nranks, int rank) {
  return zigzag_split(total, nranks).positions(rank);
}

namespace sequence_parallel {

namespace {

// Joins a block to the one before it, if both are full and share a side.
bool join(AttentionBlock& into, const AttentionBlock& block) {
  if (into.is_diagonal || block.is_diagonal) {
    return false;
  }
  if (into.queries == block.queries && into.keys.end() == block.keys.begin) {
    into.keys.size += block.keys.size;
    return true;
  }
  if (into.keys == block.keys && into.queries.end() == block.queries.begin) {
    into.queries.size += block.queries.size;
    return true;
  }
  return false;
}

std::vector<AttentionBlock> joined(const std::vector<AttentionBlock>& blocks) {
  std::vector<AttentionBlock> all;
  for (const AttentionBlock& block : blocks) {
    const bool is_in = std::ranges::any_of(
        all, [&](AttentionBlock& each) { return join(each, block); });
    if (!is_in) {
      all.push_back(block);
    }
  }
  return all;
}

} // namespace

std::int64_t AttentionBlock::area() const {
  return is_diagonal ? queries.size * (queries.size + 1) / 2
                     : queries.size * keys.size;
}

std::vector<AttentionBlock> attention_blocks(
    const std::vector<Segment>& queries,
    const std::vector<Segment>& keys,
    bool causal) {
  std::vector<AttentionBlock> blocks;
  std::int64_t query_place = 0;
  for (const Segment& q : queries) {
    std::int64_t key_place = 0;
    for (const Segment& k : keys) {
      // Segments of a split are equal or disjoint, so a pair is masked as a
      // whole, full, or on the diagonal.
      const bool is_masked = causal && k.begin > q.begin;
      if (q.size > 0 && k.size > 0 && !is_masked) {
        blocks.push_back(
            {{query_place, q.size},
             {key_place, k.size},
             causal && k.begin == q.begin});
      }
      key_place += k.size;
    }
    query_place += q.size;
  }
  // Twice: first joins blocks of a row, then rows that have the same keys.
  return joined(joined(blocks));
}

int RingPlan::owner(int rank, int step) const {
  return (rank - step + nranks()) % nranks();
}

int RingPlan::holder(int owner, int step) const {
  return (owner + step) % nranks();
}

// Both ends of a transfer evaluate this for the receiver, so that sends and
// receives match without a message about them.
bool RingPlan::comes(int rank, int step) const {
  return step > 0 && step < nranks() && step <= last_step[owner(rank, step)];
}

std::int64_t RingPlan::area(int rank) const {
  std::int64_t sum = 0;
  for (const auto& step : blocks.at(rank)) {
    for (const AttentionBlock& block : step) {
      sum += block.area();
    }
  }
  return sum;
}

RingPlan plan_ring(const SequenceSplit& split, bool causal) {
  const int n = split.nranks();
  RingPlan plan;
  plan.last_step.assign(n, 0);
  plan.blocks.resize(n);
  for (int rank = 0; rank < n; ++rank) {
    for (int step = 0; step < n; ++step) {
      const int owner = plan.owner(rank, step);
      plan.blocks[rank].push_back(
          attention_blocks(split.of_rank[rank], split.of_rank[owner], causal));
      if (!plan.blocks[rank].back().empty()) {
        // Keys pass through ranks that do not need them to reach one that does.
        plan.last_step[owner] = std::max(plan.last_step[owner], step);
      }
    }
  }
  return plan;
}

std::ostream& operator<<(std::ostream& out, const AttentionBlock& block) {
  return out << block.queries << (block.is_diagonal ? " \\ " : " x ")
             << block.keys;
}

std::ostream& operator<<(std::ostream& out, const HeadRange& heads) {
  return out << heads.queries << " with keys " << heads.keys;
}

std::vector<HeadRange> split_heads(
    std::int64_t query_heads, std::int64_t key_heads, int nranks) {
  ARGOSY_CHECK(
      key_heads > 0 && query_heads % key_heads == 0,
      "[sequence_parallel] {} heads of queries, expected a multiple of the {} "
      "of keys",
      query_heads,
      key_heads);
  const std::int64_t group = query_heads / key_heads;
  const bool whole_groups = key_heads >= nranks;
  std::vector<HeadRange> ranges;
  for (const Segment& part :
       cut(whole_groups ? key_heads : query_heads, nranks)) {
    if (whole_groups) {
      ranges.push_back({{part.begin * group, part.size * group}, part});
    } else {
      const std::int64_t first = part.begin / group;
      const std::int64_t end = (part.end() + group - 1) / group;
      ranges.push_back({part, {first, part.size > 0 ? end - first : 0}});
    }
  }
  return ranges;
}

} // namespace sequence_parallel

} // namespace argosy
