#pragma once

#include <chrono>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/process_status.h"
#include "argosy/launch/outcome.h"
#include "argosy/launch/plan.h"

namespace argosy::launch {

// One worker that failed, as people are told.
struct Failure {
  std::string host;
  std::string role;
  int rank = 0;
  int local_rank = 0;
  int pid = 0; // 0: no worker, but a launcher failed
  ProcessStatus status;
  std::chrono::system_clock::time_point time; // when it happened
  std::string error_file{};                   // empty: it wrote none
  std::string message{};
  std::string
      output_tail{}; // last lines of its stderr, when they are in a file

  bool operator==(const Failure&) const = default;
};

// The failures of an attempt, the root cause (what happened first) at the
// front. Reads error files and the ends of log files.
std::vector<Failure> collect_failures(
    const JobPlan& plan, const Outcome& outcome);

// torchrun's block: the root cause, then the other failures.
std::string summary_text(
    const std::string& program, const std::vector<Failure>& failures);

// The last `lines` lines of a file, or less; empty when it cannot be read.
std::string tail_of(const std::string& path, int lines);

} // namespace argosy::launch
