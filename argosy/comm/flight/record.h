#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "argosy/comm/operation/call.h"

// What the flight recorder of a rank knows. Torch-free, so that the `argosy`
// command can read the records that ranks wrote.
namespace argosy::comm::flight {

enum class State : std::uint8_t { Issued, Started, Completed, Failed };

std::string to_string(State state);

// A call and its outcome. Times are microseconds since 1970; 0 for what has not
// happened.
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
    std::uint64_t received = 0; // recv() calls, whether done or not

    bool operator==(const Messages&) const = default;
  };
  std::vector<Messages> messages; // for each peer with messages

  bool operator==(const GroupCounts&) const = default;
};

// What a rank wrote.
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
