#pragma once

#include <sys/types.h>

#include <vector>

namespace argosy::launch {

// Returns the running descendants of a process, nearest first, without zombies.
// A snapshot; processes may start and end meanwhile.
std::vector<pid_t> descendants(pid_t ancestor);

// Sends `signal` to each descendant of this process.
void signal_descendants(int signal);

// Makes this process adopt its orphaned descendants, so that none escapes
// descendants() by outliving its parent.
void become_subreaper();

// Kills and reaps descendants of this process; blocks until none is left.
void kill_descendants();

} // namespace argosy::launch
