#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "argosy/comm/memory/team.h"
#include "argosy/comm/slice.h"

namespace argosy::comm::memory {

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
