#pragma once

#include <vector>

#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/message/copies.h"
#include "argosy/comm/message/transfer_set.h"

namespace argosy::comm::message {

// A reduction in which every rank reduces one slice of what all ranks give, in
// rank order, and may pass the result on. Seen from one rank.
struct ReducePlan {
  Reduction reduction;
  ByteRanges give;         // give[r]: our input to the slice of rank r
  ByteRange sum;           // where our reduced slice goes; null: nowhere
  std::vector<int> takers; // the other ranks that want it
  ByteRanges take;         // take[r]: where the reduced slice of rank r goes
};

// Works in chunks: while one is reduced, the next ones arrive and finished ones
// leave. Inputs may overlap with where results are taken.
void run_reduce_plan(TransferSet& transfers, const ReducePlan& plan);

// The plans of all_reduce, reduce and reduce_scatter.
ReducePlan all_reduce_plan(
    int rank,
    int size,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction);
ReducePlan reduce_plan(
    int rank,
    int size,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    int root);
ReducePlan reduce_scatter_plan(
    int size,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction);

} // namespace argosy::comm::message
