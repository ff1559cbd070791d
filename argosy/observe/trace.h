#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "argosy/observe/sink.h"

// The activity of all ranks in Chrome's trace format, for chrome://tracing,
// Perfetto and HTA.
namespace argosy::observe {

struct TraceSpan {
  std::string name;
  Activity activity = Activity::Compute;
  int thread = 0;            // of the rank, from 0
  std::int64_t begin_ns = 0; // Unix time
  std::int64_t end_ns = 0;

  bool operator==(const TraceSpan&) const = default;
};

// One rank's participation in a communication operation.
struct TraceOperation {
  std::string op; // for example "all_reduce"
  int group = 0;
  int from = -1;              // the sole sender or root; -1 if all ranks send
  int to = -1;                // receiver of a message; -1 in collectives
  std::uint64_t sequence = 0; // within the group, or between the two ranks
  std::int64_t bytes = 0;
  std::int64_t begin_ns = 0; // Unix time
  std::int64_t end_ns = 0;
  std::string label{}; // what it is for; may be empty

  bool operator==(const TraceOperation&) const = default;
};

struct RankTrace {
  int rank = 0;
  std::string host;
  std::vector<TraceSpan> spans;
  std::vector<TraceOperation> operations;
  std::uint64_t dropped = 0; // events that exceeded the limit

  bool operator==(const RankTrace&) const = default;
};

// Connects one rank's part of an operation to another's.
struct Arrow {
  std::size_t from_rank = 0; // indices into the list of ranks
  std::size_t from_operation = 0;
  std::size_t to_rank = 0;
  std::size_t to_operation = 0;

  bool operator==(const Arrow&) const = default;
};

// Returns arrows from the sole sender, or else from the rank that came last
// (the others waited for it), to each other rank.
std::vector<Arrow> arrows_between(const std::vector<RankTrace>& ranks);

// Assigns each operation the lowest lane that is free when it begins, because
// viewers cannot draw overlapping events in one lane.
std::vector<int> lanes_of(const std::vector<TraceOperation>& operations);

// Returns the trace file: a process per rank, with lanes for its threads and
// its communication.
std::string trace_json(const std::vector<RankTrace>& ranks);

} // namespace argosy::observe
