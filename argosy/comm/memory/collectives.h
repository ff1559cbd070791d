#pragma once

#include <cstddef>

#include "argosy/comm/blocks.h"
#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/common/deadline.h"

// Collectives among ranks that share memory. Buffers are contiguous; all ranks
// call the same with the same arguments, up to the buffers themselves. `in` and
// `out` may be the same buffer where both have the same size.
//
// Three ways, chosen alike by all ranks:
//  - small: each rank puts its data into its window and enters; all then read
//    what they need. One synchronisation.
//  - direct, when peers can see the buffers: read and write them in place.
//  - staged: the data goes through windows that stay in cache, in rounds; a
//    rank fills the next window before it waits for the others.
// Reductions add in rank order in all of them, so the bits are the same.
namespace argosy::comm::memory {

class Team;

void barrier(Team& team, Deadline deadline);

void all_reduce(
    Team& team,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline);

// `out` matters on the root only.
void reduce(
    Team& team,
    const void* in,
    void* out,
    std::size_t count,
    Reduction reduction,
    int root,
    Deadline deadline);

void broadcast(
    Team& team,
    void* data,
    std::size_t count,
    DType dtype,
    int root,
    Deadline deadline);

// `out` has a block of `count` elements for each rank.
void all_gather(
    Team& team,
    const void* in,
    const Blocks& out,
    std::size_t count,
    DType dtype,
    Deadline deadline);

// `in` has a block of `count` elements for each rank.
void reduce_scatter(
    Team& team,
    const Blocks& in,
    void* out,
    std::size_t count,
    Reduction reduction,
    Deadline deadline);

// Blocks of any size; what a rank sends to another is what that one expects.
void all_to_all(
    Team& team,
    const Blocks& in,
    const Blocks& out,
    DType dtype,
    Deadline deadline);

// `out` matters on the root only.
void gather(
    Team& team,
    const void* in,
    const Blocks& out,
    std::size_t count,
    DType dtype,
    int root,
    Deadline deadline);

// `in` matters on the root only.
void scatter(
    Team& team,
    const Blocks& in,
    void* out,
    std::size_t count,
    DType dtype,
    int root,
    Deadline deadline);

} // namespace argosy::comm::memory
