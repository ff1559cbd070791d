#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "argosy/observe/trace.h"

namespace argosy::comm::flight {
struct Operation;
struct Record;
} // namespace argosy::comm::flight

namespace argosy::observe {

// An operation of `rank` that has ended, as the flight recorder knows it.
TraceOperation trace_operation(
    const comm::flight::Operation& operation, int rank);

// The recorder keeps only the last operations: this picks, from records that
// are taken now and then, those that have ended since the one before.
class NewOperations {
 public:
  // What has ended in `first` is not new.
  explicit NewOperations(const comm::flight::Record& first);

  std::vector<TraceOperation> in(const comm::flight::Record& record);

 private:
  std::set<std::uint64_t> taken_; // numbers, of those still in the record
};

} // namespace argosy::observe
