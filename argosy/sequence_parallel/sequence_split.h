#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

// How a sequence is spread over ranks, and who attends to what. No torch.
namespace argosy {

// Positions [begin, begin + size) of a sequence.
struct Segment {
  std::int64_t begin = 0;
  std::int64_t size = 0;

  std::int64_t end() const { return begin + size; }
  bool operator==(const Segment&) const = default;
};

// "[3, 7)"
std::ostream& operator<<(std::ostream& out, const Segment& segment);

// The segments of each rank, in the order in which it holds them. Together they
// are the whole sequence, each position once.
struct SequenceSplit {
  std::vector<std::vector<Segment>> of_rank;

  int nranks() const { return static_cast<int>(of_rank.size()); }
  std::int64_t length(int rank) const;
  std::int64_t total() const;
  std::vector<std::int64_t> positions(int rank) const;

  bool operator==(const SequenceSplit&) const = default;
};

// One stretch a rank, in rank order; the first ranks have one more where the
// length does not divide.
SequenceSplit contiguous_split(std::int64_t total, int nranks);

// Of 2n chunks, rank i has the i-th from the front and the i-th from the back:
// with a causal mask, where later positions attend to more, all ranks then have
// the same work.
SequenceSplit zigzag_split(std::int64_t total, int nranks);

std::vector<std::int64_t> zigzag_positions(
    std::int64_t total, int nranks, int rank);

namespace sequence_parallel {

// Queries and keys, by their places on the ranks that hold them, that attend to
// each other: all to all, or, on the diagonal, each query to the keys up to its
// own place.
struct AttentionBlock {
  Segment queries;
  Segment keys;
  bool is_diagonal = false;

  // Pairs of a query and a key.
  std::int64_t area() const;
  bool operator==(const AttentionBlock&) const = default;
};

// What the queries of one rank do with the keys of another: as few blocks as
// possible, those that are masked left out.
std::vector<AttentionBlock> attention_blocks(
    const std::vector<Segment>& queries,
    const std::vector<Segment>& keys,
    bool causal);

// How far keys travel. A rank's keys go to the next rank, and on from there.
struct RingPlan {
  // By rank and step; in step t a rank has the keys of the t-th rank before it.
  std::vector<std::vector<std::vector<AttentionBlock>>> blocks;
  // By owner: the last step in which another rank needs its keys; 0: none does.
  std::vector<int> last_step;

  int nranks() const { return static_cast<int>(last_step.size()); }
  // Whose keys a rank has in a step, and who has those of an owner.
  int owner(int rank, int step) const;
  int holder(int owner, int step) const;
  // Whether the keys come to a rank in a step.
  bool comes(int rank, int step) const;

  std::int64_t area(int rank) const;
};

RingPlan plan_ring(const SequenceSplit& split, bool causal);

// "[0, 4) x [0, 2)", with "\" on the diagonal.
std::ostream& operator<<(std::ostream& out, const AttentionBlock& block);

// Which heads a rank works on, of queries and of keys.
struct HeadRange {
  Segment queries;
  Segment keys;

  bool operator==(const HeadRange&) const = default;
};

std::ostream& operator<<(std::ostream& out, const HeadRange& heads);

// Heads of queries share those of keys in groups of equal size. Whole groups to
// each rank where there are enough, else heads of queries, each rank with the
// keys that they need. The first ranks have one more where it does not divide.
std::vector<HeadRange> split_heads(
    std::int64_t query_heads, std::int64_t key_heads, int nranks);

} // namespace sequence_parallel

} // namespace argosy
