#pragma once

#include <vector>

#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/message/exchange.h"
#include "argosy/comm/message/flight.h"

namespace argosy::comm::message {

// A reduction in which every rank adds up one slice of what all ranks give, in
// rank order, and may pass the sum on. Seen from one rank.
struct Summation {
  Reduction reduction;
  Parts give;              // give[r]: ours to the slice of rank r
  Part sum;                // where the sum of our slice goes; null: nowhere
  std::vector<int> takers; // the other ranks that want it
  Parts take;              // take[r]: where the sum of rank r's slice goes
};

// Carries it out in pieces: while one is added up, the next ones come and the
// sums before it go. What is given may lie where sums are taken.
void add_up(Flight& flight, const Summation& summation);

// What all_reduce, reduce and reduce_scatter are of it.
Summation all_reduce_plan(
    int rank,
    int size,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction);
Summation reduce_plan(
    int rank,
    int size,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    int root);
Summation reduce_scatter_plan(
    int size,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction);

} // namespace argosy::comm::message
