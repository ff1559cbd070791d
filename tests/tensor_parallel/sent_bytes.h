#pragma once

#include <map>
#include <string>

#include "argosy/dtensor/tensor/comm_debug.h"

namespace argosy::testing {

// What this rank sent, by collective, from the buffers of its operations: of n
// ranks, gathers and scatters send (n - 1)/n of the whole, and an all_reduce
// twice that.
inline std::map<std::string, double> sent_bytes(const CommDebug& debug) {
  std::map<std::string, double> bytes;
  for (const auto& entry : debug.entries()) {
    const auto n = static_cast<double>(entry.ranks.size());
    const double times = entry.collective == "all_reduce" ? 2 : 1;
    bytes[entry.collective] +=
        times * static_cast<double>(entry.bytes) * (n - 1) / n;
  }
  return bytes;
}

inline double total(const std::map<std::string, double>& bytes) {
  double sum = 0;
  for (const auto& [name, each] : bytes) {
    sum += each;
  }
  return sum;
}

} // namespace argosy::testing
