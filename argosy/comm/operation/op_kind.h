#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace argosy::comm {

enum class OpKind : std::uint8_t {
  Barrier,
  AllReduce,
  Reduce,
  Broadcast,
  AllGather,
  ReduceScatter,
  AllToAll,
  Gather,
  Scatter,
  Send,
  Recv,
};

inline constexpr std::size_t kNumOpKinds = 11;

// As users spell it: "all_reduce".
std::string to_string(OpKind kind);

// Whether it adds what the ranks give.
constexpr bool reduces(OpKind kind) {
  return kind == OpKind::AllReduce || kind == OpKind::Reduce ||
      kind == OpKind::ReduceScatter;
}

// Whether it concerns two ranks alone.
constexpr bool is_pairwise(OpKind kind) {
  return kind == OpKind::Send || kind == OpKind::Recv;
}

} // namespace argosy::comm
