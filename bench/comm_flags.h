#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/harness.h"

namespace argosy::bench {

// The options of `argosy bench comm`. Empty lists: the defaults.
struct CommFlags {
  Flags common;
  std::vector<int> ranks;
  std::vector<std::string> ops;
  std::vector<std::size_t> sizes; // bytes
  std::string argosy;             // the command that starts our ranks
  std::string mpirun;             // Open MPI's; empty if not installed
};

// Runs `body` with the flags; returns the program's exit code.
int with_comm_flags(
    int argc, char** argv, const std::function<void(const CommFlags&)>& body);

// Returns the path of another bench program in this program's folder.
std::string beside_this(const std::string& name);

} // namespace argosy::bench
