// The collectives that move data without adding: broadcast, all_gather,
// all_to_all, gather, scatter, barrier.

#include <cstring>
#include <numeric>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/memory/collectives.h"
#include "argosy/comm/memory/record.h"
#include "argosy/comm/memory/rounds.h"
#include "argosy/comm/memory/team.h"
#include "argosy/common/error.h"

namespace argosy::comm::memory {

namespace {

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

std::byte* at(void* base, std::size_t offset) {
  return static_cast<std::byte*>(base) + offset;
}

const std::byte* at(const void* base, std::size_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

// The part of [0, bytes) that a round moves.
Slice part_of(std::size_t bytes, std::uint32_t round, std::size_t per_round) {
  const std::size_t begin = round * per_round;
  return {begin, std::min(per_round, bytes - begin)};
}

} // namespace

void barrier(Team& team, Deadline deadline) {
  team.enter(record(OpKind::Barrier, 0, DType::UInt8), deadline);
}

void broadcast(
    Team& team,
    void* data,
    std::size_t count,
    DType dtype,
    int root,
    Deadline deadline) {
  const std::size_t bytes = count * size_of(dtype);
  OpRecord mine = record(OpKind::Broadcast, count, dtype, root);
  const bool is_root = team.rank() == root;
  if (is_small(bytes)) {
    if (is_root) {
      copy_bytes(team.next_small_window(), data, bytes);
    }
    team.enter(mine, deadline);
    if (!is_root) {
      copy_bytes(data, team.small_window(root), bytes);
    }
    return;
  }
  // Between processes, windows keep both the root's core and the others' busy;
  // fetching would use the latter alone.
  offer(team, mine, data, data, 0);
  team.enter(mine, deadline);
  if (team.all_direct()) {
    if (!is_root) {
      team.fetch(root, data, team.record_of(root).in, bytes);
    }
    leave_together(team, deadline);
    return;
  }
  run_rounds(
      team,
      rounds_for(bytes, kRoundBytes),
      [&](std::uint32_t round, std::byte* window) {
        if (is_root) {
          const Slice part = part_of(bytes, round, kRoundBytes);
          copy_bytes(window, at(data, part.begin), part.count);
        }
      },
      [&](std::uint32_t round, int index) {
        if (!is_root) {
          const Slice part = part_of(bytes, round, kRoundBytes);
          copy_bytes(
              at(data, part.begin), team.window(root, index), part.count);
        }
      },
      deadline);
}

void all_gather(
    Team& team,
    const void* in,
    void* out,
    std::size_t count,
    DType dtype,
    Deadline deadline) {
  const std::size_t bytes = count * size_of(dtype);
  OpRecord mine = record(OpKind::AllGather, count, dtype);
  const auto place = [&](int peer) { return at(out, bytes * peer); };
  if (is_small(bytes)) {
    copy_bytes(team.next_small_window(), in, bytes);
    team.enter(mine, deadline);
    for (int peer = 0; peer < team.size(); ++peer) {
      copy_bytes(place(peer), team.small_window(peer), bytes);
    }
    return;
  }
  offer(team, mine, in, out, bytes);
  team.enter(mine, deadline);
  if (team.all_direct()) {
    for (int peer : others_first_neighbour(team)) {
      team.fetch(peer, place(peer), team.record_of(peer).in, bytes);
    }
    copy_bytes(place(team.rank()), in, bytes);
    leave_together(team, deadline);
    return;
  }
  run_rounds(
      team,
      rounds_for(bytes, kRoundBytes),
      [&](std::uint32_t round, std::byte* window) {
        const Slice part = part_of(bytes, round, kRoundBytes);
        copy_bytes(window, at(in, part.begin), part.count);
        copy_bytes(place(team.rank()) + part.begin, window, part.count);
      },
      [&](std::uint32_t round, int index) {
        const Slice part = part_of(bytes, round, kRoundBytes);
        for (int peer : others_first_neighbour(team)) {
          copy_bytes(
              place(peer) + part.begin, team.window(peer, index), part.count);
        }
      },
      deadline);
}

void gather(
    Team& team,
    const void* in,
    void* out,
    std::size_t count,
    DType dtype,
    int root,
    Deadline deadline) {
  const std::size_t bytes = count * size_of(dtype);
  OpRecord mine = record(OpKind::Gather, count, dtype, root);
  const bool is_root = team.rank() == root;
  const auto place = [&](int peer) { return at(out, bytes * peer); };
  offer(team, mine, in, out, bytes);
  team.enter(mine, deadline);
  if (is_root) {
    copy_bytes(place(root), in, bytes);
  }
  if (team.all_direct()) {
    for (int peer : others_first_neighbour(team)) {
      if (is_root) {
        team.fetch(peer, place(peer), team.record_of(peer).in, bytes);
      }
    }
    leave_together(team, deadline);
    return;
  }
  run_rounds(
      team,
      rounds_for(bytes, kRoundBytes),
      [&](std::uint32_t round, std::byte* window) {
        if (!is_root) {
          const Slice part = part_of(bytes, round, kRoundBytes);
          copy_bytes(window, at(in, part.begin), part.count);
        }
      },
      [&](std::uint32_t round, int index) {
        if (is_root) {
          const Slice part = part_of(bytes, round, kRoundBytes);
          for (int peer : others_first_neighbour(team)) {
            copy_bytes(
                place(peer) + part.begin, team.window(peer, index), part.count);
          }
        }
      },
      deadline);
}

void scatter(
    Team& team,
    const void* in,
    void* out,
    std::size_t count,
    DType dtype,
    int root,
    Deadline deadline) {
  const std::size_t bytes = count * size_of(dtype);
  OpRecord mine = record(OpKind::Scatter, count, dtype, root);
  const bool is_root = team.rank() == root;
  const auto n = static_cast<std::size_t>(team.size());
  offer(team, mine, in, out, bytes);
  team.enter(mine, deadline);
  if (is_root) {
    copy_bytes(out, at(in, bytes * root), bytes);
  }
  if (team.all_direct()) {
    if (!is_root) {
      team.fetch(
          root, out, team.record_of(root).in + bytes * team.rank(), bytes);
    }
    leave_together(team, deadline);
    return;
  }
  // A round carries a part for every rank.
  const std::size_t per_rank = std::max<std::size_t>(kRoundBytes / n, 1);
  run_rounds(
      team,
      rounds_for(bytes, per_rank),
      [&](std::uint32_t round, std::byte* window) {
        if (is_root) {
          const Slice part = part_of(bytes, round, per_rank);
          for (int peer : others_first_neighbour(team)) {
            copy_bytes(
                window + per_rank * peer,
                at(in, bytes * peer + part.begin),
                part.count);
          }
        }
      },
      [&](std::uint32_t round, int index) {
        if (!is_root) {
          const Slice part = part_of(bytes, round, per_rank);
          copy_bytes(
              at(out, part.begin),
              team.window(root, index) + per_rank * team.rank(),
              part.count);
        }
      },
      deadline);
}

namespace {

std::vector<std::size_t> offsets_of(
    const std::vector<std::size_t>& counts, std::size_t element) {
  std::vector<std::size_t> offsets(counts.size() + 1, 0);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    offsets[i + 1] = offsets[i] + counts[i] * element;
  }
  return offsets;
}

// Each rank tells what it sends and expects, so that all see any disagreement.
// Returns the longest message of all, which sets the number of rounds.
std::size_t agree_on_counts(
    Team& team,
    const OpRecord& mine,
    const std::vector<std::size_t>& send_counts,
    const std::vector<std::size_t>& receive_counts,
    Deadline deadline) {
  const auto n = static_cast<std::size_t>(team.size());
  const std::size_t bytes = n * sizeof(std::size_t);
  ARGOSY_ASSERT(2 * bytes <= kWindowBytes);
  std::memcpy(team.next_small_window(), send_counts.data(), bytes);
  std::memcpy(team.next_small_window() + bytes, receive_counts.data(), bytes);
  team.enter(mine, deadline);
  const auto counts = [&](int rank) {
    return reinterpret_cast<const std::size_t*>(team.small_window(rank));
  };
  std::size_t longest = 0;
  for (int from = 0; from < team.size(); ++from) {
    for (int to = 0; to < team.size(); ++to) {
      const std::size_t sent = counts(from)[to];
      const std::size_t expected =
          counts(to)[n + static_cast<std::size_t>(from)];
      if (sent != expected) {
        team.disagree(
            str("rank ",
                from,
                " sends ",
                sent,
                " elements to rank ",
                to,
                ", which expects ",
                expected));
      }
      longest = std::max(longest, sent);
    }
  }
  return longest;
}

// Elements that `peer` sends to ranks before this one, as it told on entering.
std::size_t elements_before(const Team& team, int peer) {
  const auto* sent =
      reinterpret_cast<const std::size_t*>(team.small_window(peer));
  return std::accumulate(sent, sent + team.rank(), std::size_t{0});
}

} // namespace

void all_to_all(
    Team& team,
    const void* in,
    const std::vector<std::size_t>& send_counts,
    void* out,
    const std::vector<std::size_t>& receive_counts,
    DType dtype,
    Deadline deadline) {
  const std::size_t element = size_of(dtype);
  const auto send = offsets_of(send_counts, element);
  const auto receive = offsets_of(receive_counts, element);
  OpRecord mine = record(OpKind::AllToAll, 0, dtype);
  offer(team, mine, in, out, send.back());
  const std::size_t longest = element *
      agree_on_counts(team, mine, send_counts, receive_counts, deadline);
  const int self = team.rank();
  copy_bytes(
      at(out, receive[self]), at(in, send[self]), send[self + 1] - send[self]);
  if (team.all_direct()) {
    for (int peer : others_first_neighbour(team)) {
      team.fetch(
          peer,
          at(out, receive[peer]),
          team.record_of(peer).in + element * elements_before(team, peer),
          receive[peer + 1] - receive[peer]);
    }
    leave_together(team, deadline);
    return;
  }
  // A round carries a part of every message.
  const std::size_t per_rank = std::max<std::size_t>(
      kRoundBytes / static_cast<std::size_t>(team.size()) / kLine * kLine, 1);
  const auto part = [&](const std::vector<std::size_t>& offsets,
                        int peer,
                        std::uint32_t round) {
    const std::size_t bytes = offsets[peer + 1] - offsets[peer];
    const std::size_t begin = std::min(bytes, round * per_rank);
    return Slice{begin, std::min(per_rank, bytes - begin)};
  };
  run_rounds(
      team,
      rounds_for(longest, per_rank),
      [&](std::uint32_t round, std::byte* window) {
        for (int peer : others_first_neighbour(team)) {
          const Slice piece = part(send, peer, round);
          copy_bytes(
              window + per_rank * peer,
              at(in, send[peer] + piece.begin),
              piece.count);
        }
      },
      [&](std::uint32_t round, int index) {
        for (int peer : others_first_neighbour(team)) {
          const Slice piece = part(receive, peer, round);
          copy_bytes(
              at(out, receive[peer] + piece.begin),
              team.window(peer, index) + per_rank * self,
              piece.count);
        }
      },
      deadline);
}

} // namespace argosy::comm::memory
