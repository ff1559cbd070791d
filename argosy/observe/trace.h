#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "argosy/observe/sink.h"

// A picture of what all ranks did, as a file of Chrome's trace format: for
// chrome://tracing, Perfetto, and HTA.
namespace argosy::observe {

struct TraceSpan {
  std::string name;
  Activity activity = Activity::Compute;
  int thread = 0;            // of the rank, from 0
  std::int64_t begin_ns = 0; // since 1970
  std::int64_t end_ns = 0;

  bool operator==(const TraceSpan&) const = default;
};

// A rank's part in an operation that several ranks carry out together.
struct TraceOperation {
  std::string op; // "all_reduce"
  int group = 0;
  int from = -1; // rank of who alone gives: a sender or a root; -1: all do
  int to = -1;   // rank of who receives a message; -1 in collectives
  std::uint64_t sequence = 0; // within the group, or between the two
  std::int64_t bytes = 0;
  std::int64_t begin_ns = 0; // since 1970
  std::int64_t end_ns = 0;

  bool operator==(const TraceOperation&) const = default;
};

struct RankTrace {
  int rank = 0;
  std::string host;
  std::vector<TraceSpan> spans;
  std::vector<TraceOperation> operations;
  std::uint64_t dropped = 0; // what there was no room for

  bool operator==(const RankTrace&) const = default;
};

// From a rank's part in an operation to another's.
struct Arrow {
  std::size_t from_rank = 0; // places in the list of ranks
  std::size_t from_operation = 0;
  std::size_t to_rank = 0;
  std::size_t to_operation = 0;

  bool operator==(const Arrow&) const = default;
};

// From the rank that alone gives, else from the one that came last, for which
// the others waited, to each of the others.
std::vector<Arrow> arrows_between(const std::vector<RankTrace>& ranks);

// For each operation the lowest lane in which nothing is under way when it
// begins: what overlaps in one lane cannot be drawn.
std::vector<int> lanes_of(const std::vector<TraceOperation>& operations);

// The file: a process for each rank, with lanes for its threads and its
// communication.
std::string trace_json(const std::vector<RankTrace>& ranks);

} // namespace argosy::observe
