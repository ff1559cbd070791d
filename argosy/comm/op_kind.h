#pragma once

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

// As users spell it: "all_reduce".
std::string to_string(OpKind kind);

} // namespace argosy::comm
