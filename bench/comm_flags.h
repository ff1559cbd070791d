#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/harness.h"

namespace argosy::bench {

// What `argosy bench comm` can be asked for. Empty lists: the usual.
struct CommFlags {
  Flags common;
  std::vector<int> ranks;
  std::vector<std::string> ops;
  std::vector<std::size_t> sizes; // bytes
  std::string argosy;             // the command that starts our ranks
  std::string mpirun;             // Open MPI's; empty when there is none
};

// Runs `body` with the flags, and returns the exit code of the program.
int with_comm_flags(
    int argc, char** argv, const std::function<void(const CommFlags&)>& body);

// A program of the bench in the folder of this one.
std::string beside_this(const std::string& name);

} // namespace argosy::bench
