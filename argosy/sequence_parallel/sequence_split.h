#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

// How a sequence is split over ranks, and which ranks attend to which keys.
// Torch-free.
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

// The segments of each rank, in the order in which the rank holds them.
// Together they cover each position of the sequence once.
struct SequenceSplit {
  std::vector<std::vector<Segment>> of_rank;

  int nranks() const { return static_cast<int>(of_rank.size()); }
  std::int64_t length(int rank) const;
  std::int64_t total() const;
  std::vector<std::int64_t> positions(int rank) const;

  bool operator==(const SequenceSplit&) const = default;
};

// One segment for each rank, in rank order. If the length does not divide, the
// first ranks have one position more.
SequenceSplit contiguous_split(std::int64_t total, int nranks);

// Splits the sequence into 2n chunks; rank i gets chunk i from the front and
// chunk i from the back. With a causal mask later positions attend to more
// keys; this split gives all ranks the same amount of work.
SequenceSplit zigzag_split(std::int64_t total, int nranks);

std::vector<std::int64_t> zigzag_positions(
    std::int64_t total, int nranks, int rank);

namespace sequence_parallel {

// A block of queries that attend to a block of keys. Positions are those on the
// ranks that hold them. On the diagonal, each query attends to the keys up to
// its own position; else to all keys of the block.
struct AttentionBlock {
  Segment queries;
  Segment keys;
  bool is_diagonal = false;

  // The number of pairs of a query and a key.
  std::int64_t area() const;
  bool operator==(const AttentionBlock&) const = default;
};

// The blocks of the queries of one rank and the keys of another: as few as
// possible, without masked ones.
std::vector<AttentionBlock> attention_blocks(
    const std::vector<Segment>& queries,
    const std::vector<Segment>& keys,
    bool causal);

// How far keys travel. In each step, a rank passes the keys that it has to the
// next rank.
struct RingPlan {
  // Indexed by rank and step. In step t a rank has the keys of the t-th rank
  // before it.
  std::vector<std::vector<std::vector<AttentionBlock>>> blocks;
  // Indexed by owner: the last step in which another rank needs its keys; 0: no
  // other rank does.
  std::vector<int> last_step;

  int nranks() const { return static_cast<int>(last_step.size()); }
  // The owner of the keys that a rank has in a step, and the rank that has the
  // keys of an owner.
  int owner(int rank, int step) const;
  int holder(int owner, int step) const;
  // Whether a rank receives keys in a step.
  bool comes(int rank, int step) const;

  std::int64_t area(int rank) const;
};

RingPlan plan_ring(const SequenceSplit& split, bool causal);

// "[0, 4) x [0, 2)", with "\" on the diagonal.
std::ostream& operator<<(std::ostream& out, const AttentionBlock& block);

// The heads of queries and of keys that a rank computes.
struct HeadRange {
  Segment queries;
  Segment keys;

  bool operator==(const HeadRange&) const = default;
};

std::ostream& operator<<(std::ostream& out, const HeadRange& heads);

// Assigns heads to ranks. Heads of queries share heads of keys in groups of
// equal size. If there are enough groups, each rank gets whole groups;
// otherwise each gets some heads of queries, and the keys that they need. If
// the number does not divide, the first ranks get one more.
std::vector<HeadRange> split_heads(
    std::int64_t query_heads, std::int64_t key_heads, int nranks);

} // namespace sequence_parallel

} // namespace argosy
