#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "argosy/common/process_status.h"
#include "argosy/launch/outcome.h"
#include "argosy/launch/plan.h"

namespace argosy::launch {

// A worker that failed, or left too early.
struct Failure {
  std::string host;
  std::string role;
  int rank = 0;
  int local_rank = 0;
  int pid = 0; // 0: the launcher itself failed
  ProcessStatus status;
  std::chrono::system_clock::time_point time; // when it happened
  std::string error_file{};                   // empty: none was written
  std::string message{};
  std::string
      output_tail{}; // last lines of its stderr, when they are in a file

  bool operator==(const Failure&) const = default;
};

// Collects the failures of an attempt; the root cause comes first: a worker
// that left although others waited for it, or the earliest. Reads error files,
// flight records and the ends of log files.
std::vector<Failure> collect_failures(
    const JobPlan& plan, const Outcome& outcome);

// Formats failures like torchrun: the root cause, then the others.
std::string summary_text(
    const std::string& program, const std::vector<Failure>& failures);

// Returns up to `lines` last lines of a file; empty if it cannot be read.
std::string tail_of(const std::string& path, int lines);

} // namespace argosy::launch
