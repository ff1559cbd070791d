#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "argosy/dtensor/ops/rule.h"

namespace argosy {
class Group;
}

// What ops that reduce dims have in common.
namespace argosy::dtensor {

// The dims that a call names as "dim"; none named: all.
struct ReducedDims {
  std::vector<bool> reduced; // of the input's dims
  bool keep = false;

  // Where a dim of the input is in the output.
  int out(std::size_t dim) const;
};

ReducedDims reduced_dims(const OpCall& call);

// For `shapes`: of each output.
std::vector<Shape> reduced_shape(const OpCall& call);

// Shards of dims that stay go through. `partial`: what the reduction of a shard
// is. `needs_even`: only when shards are of equal size.
std::vector<Strategy> reduction(
    const OpCall& call, std::optional<comm::ReduceOp> partial, bool needs_even);

// Where an op is its own reduction: the sum of sums is a sum.
void add_passing(
    std::vector<Strategy>& strategies,
    const OpCall& call,
    std::initializer_list<comm::ReduceOp> ops);

// As reduction(), with shards of reduced dims too, of which `run` makes results
// that all ranks have.
std::vector<Strategy> reduction_together(const OpCall& call);

// A call that runs: its dims, and the ranks among which they are cut.
struct LocalReduction {
  Shape dims;                   // not negative
  std::int64_t count = 1;       // of elements that each result is made of
  std::shared_ptr<Group> group; // null when no rank needs another
};

LocalReduction local_reduction(LocalCall& call);

} // namespace argosy::dtensor
