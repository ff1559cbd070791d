#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "argosy/common/process_status.h"

namespace argosy::testing {

struct CommandResult {
  ProcessStatus status;
  std::string output; // standard output and standard error
};

// Runs a line of shell, killing it after a minute.
inline CommandResult run_command(const std::string& line) {
  CommandResult result;
  FILE* pipe =
      ::popen(("exec 2>&1; timeout -k 5 60 sh -c '" + line + "'").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t size =
             std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.output.append(buffer.data(), size);
  }
  result.status = ProcessStatus::from_wait(::pclose(pipe));
  return result;
}

} // namespace argosy::testing
