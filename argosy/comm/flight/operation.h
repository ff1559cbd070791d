#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/kernels/reduce_op.h"
#include "argosy/comm/op_kind.h"

// What a rank did last: the flight recorder. Torch-free, so that the `argosy`
// command reads what it wrote.
namespace argosy::comm::flight {

// The tensors of one side of an operation. Of a list, the dims of the first.
struct Side {
  static constexpr std::size_t kMostDims = 6; // further ones are not kept

  std::uint32_t num_tensors = 0;
  std::uint32_t num_dims = 0; // as many as the tensor has
  std::int64_t elements = 0;  // of all tensors
  std::array<std::int64_t, kMostDims> dims{};

  std::span<const std::int64_t> kept_dims() const;

  bool operator==(const Side&) const = default;
};

// "[3, 4]", "8 x [3]", "nothing".
std::string to_string(const Side& side);

// An operation as it was asked for.
struct Call {
  OpKind kind = OpKind::Barrier;
  DType dtype = DType::Float32;
  ReduceOp reduce = ReduceOp::SUM;
  int root = -1; // global rank; of send and recv, the peer
  Side in;
  Side out;
  std::int64_t bytes = 0; // of the larger side

  bool operator==(const Call&) const = default;
};

// "all_reduce of float32 [3, 4], sum"
std::string to_string(const Call& call);

// Whether two members may make these calls as the same collective; or, of a
// send and a recv, as the two ends of a message.
bool agree(const Call& a, const Call& b);

enum class State : std::uint8_t { Issued, Started, Completed, Failed };

std::string to_string(State state);

// A call and what became of it. Times are microseconds since 1970; 0 for what
// has not happened.
struct Operation {
  std::uint64_t number = 0; // ascending in the order of issue, with gaps
  int group = 0;
  std::uint64_t sequence = 0; // within the group: among its collectives, or
                              // the messages to or from this peer; from 0
  Call call;
  State state = State::Issued;
  std::int64_t issued_us = 0;
  std::int64_t started_us = 0;
  std::int64_t ended_us = 0;
  std::string error; // why it failed

  bool operator==(const Operation&) const = default;
};

// A rank's view of a group: how many operations it issued there.
struct GroupCounts {
  int id = 0;
  std::vector<int> ranks; // global, ascending
  std::uint64_t collectives = 0;

  struct Messages {
    int peer = 0; // global rank
    std::uint64_t sent = 0;
    std::uint64_t received = 0; // recv issued, to be exact

    bool operator==(const Messages&) const = default;
  };
  std::vector<Messages> messages; // peers that there are messages with

  bool operator==(const GroupCounts&) const = default;
};

// What a rank knows when it is asked.
struct Record {
  int rank = 0;
  int world_size = 1;
  int restart_count = 0;
  std::string run_id;
  std::string host;
  int pid = 0;
  std::string reason; // why it was written
  std::int64_t time_us = 0;
  std::vector<GroupCounts> groups;
  std::vector<Operation> operations; // in the order of issue

  bool operator==(const Record&) const = default;
};

} // namespace argosy::comm::flight
