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

// Converts a finished operation of `rank` from the flight recorder's form.
TraceOperation trace_operation(
    const comm::flight::Operation& operation, int rank);

// Finds operations that are new since the previous record. The flight recorder
// keeps only the most recent operations, so records are taken periodically.
class NewOperations {
 public:
  // Operations that ended in `first` do not count as new.
  explicit NewOperations(const comm::flight::Record& first);

  std::vector<TraceOperation> in(const comm::flight::Record& record);

 private:
  // Sequence numbers of those still in the record.
  std::set<std::uint64_t> taken_;
};

} // namespace argosy::observe
