#pragma once

#include <sys/types.h>

#include <vector>

#include "argosy/common/deadline.h"

namespace argosy::launch {

// Returns the running descendants of a process, nearest first, without zombies.
// A snapshot; processes may start and end meanwhile.
std::vector<pid_t> descendants(pid_t ancestor);

// Sends `signal` to each descendant of this process.
void signal_descendants(int signal);

// Makes this process adopt its orphaned descendants, so that none escapes
// descendants() by outliving its parent.
void become_subreaper();

// Kills and reaps descendants of this process. Blocks until none is left, or
// the deadline; returns those that did not end.
std::vector<pid_t> kill_descendants(Deadline deadline);

// The same within 10 s, and says which did not end.
void kill_descendants();

} // namespace argosy::launch
