#pragma once

#include <optional>
#include <string>

namespace argosy {

// Which process a rank is, in words that other ranks of its host understand.
// Not installed.
std::string own_process_identity();

// The pid of a process that is known to have ended. Nothing if it runs, or if
// it cannot be seen from here: another host or PID namespace.
std::optional<int> ended_process(const std::string& identity);

// Where a rank keeps its identity in the store of its world.
std::string process_key(int rank);

} // namespace argosy
