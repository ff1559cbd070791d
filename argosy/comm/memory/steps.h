#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>

#include "argosy/comm/backend/slices.h"
#include "argosy/comm/memory/layout.h"
#include "argosy/comm/memory/team.h"

// What the collectives are made of: sizes, offers, rounds.
namespace argosy::comm::memory {

// Below this, data goes through the small windows: one synchronisation is worth
// more than the copies it costs.
constexpr std::size_t kSmallBytes = 32 << 10;
constexpr bool is_small(std::size_t bytes) {
  return bytes <= kSmallBytes;
}

// Bytes that are processed at once, so that they stay in a cache.
constexpr std::size_t kFetchPiece = std::size_t{256} << 10;
constexpr std::size_t kMappedPiece = std::size_t{16} << 10;
constexpr std::size_t kGuardedPieces = 16; // in one Peers::BufferGuard

// Sets how peers access the buffers of an operation that reads one and writes
// one.
inline void offer(
    const Team& team, OpOffer& mine, const void* in, const void* out) {
  mine.access = std::min(team.access_of(in), team.access_of(out));
  mine.in = team.ref_of(in, mine.access);
  mine.out = team.ref_of(out, mine.access);
}

// All ranks but ours, beginning with the next one, so that ranks do not all
// start with the same peer. A range, because small operations are too short to
// allocate memory.
inline auto others_first_neighbour(const Team& team) {
  return std::views::iota(1, team.size()) |
      std::views::transform([rank = team.rank(), size = team.size()](int step) {
           return (rank + step) % size;
         });
}

// After direct use of each other's buffers: waits until all are done.
inline void leave_together(Team& team, Deadline deadline) {
  team.publish_consumed(0);
  team.await_consumed(0, deadline);
  team.end_rounds(1);
}

// Bytes that a rank puts into a window in one round: two windows of all
// neighbours should stay in a core's second-level cache.
constexpr std::size_t kRoundBytes = kWindowBytes / 2;
static_assert(kRoundBytes <= kWindowBytes);

// The window that holds the data of a round. Rounds alternate between the last
// two of four; small operations use the first two, so neither waits for the
// other's readers.
constexpr int round_window(std::uint32_t round) {
  return 2 + static_cast<int>(round % 2);
}

// Runs `num_rounds` rounds in which each rank first puts data into its window,
// then takes data from the windows of others:
//   produce(round, std::byte* own_window)
//   consume(round, int window_index)
template <typename Produce, typename Consume>
void run_rounds(
    Team& team,
    std::uint32_t num_rounds,
    const Produce& produce,
    const Consume& consume,
    Deadline deadline) {
  const auto fill = [&](std::uint32_t round) {
    produce(round, team.window(team.rank(), round_window(round)));
    team.publish_staged(round);
  };
  if (num_rounds > 0) {
    fill(0);
  }
  for (std::uint32_t round = 0; round < num_rounds; ++round) {
    if (round + 1 < num_rounds) {
      if (round >= 1) { // the window's earlier data must have been taken
        team.await_consumed(round - 1, deadline);
      }
      fill(round + 1);
    }
    team.await_staged(round, deadline);
    consume(round, round_window(round));
    team.publish_consumed(round);
  }
  team.end_rounds(num_rounds);
}

constexpr std::uint32_t rounds_for(std::size_t bytes, std::size_t per_round) {
  return static_cast<std::uint32_t>((bytes + per_round - 1) / per_round);
}

} // namespace argosy::comm::memory
