#pragma once

#include <sys/types.h>

#include <vector>

namespace argosy::launch {

// Running processes whose chain of parents leads to `ancestor`, nearest first.
// Zombies do not count. A snapshot: processes may come and go meanwhile.
std::vector<pid_t> descendants(pid_t ancestor);

// Sends `signal` to each descendant of this process.
void signal_descendants(int signal);

// Makes this process inherit the orphans among its descendants, so that none
// escapes descendants() by outliving its parent.
void become_subreaper();

// SIGKILLs descendants of this process and reaps, until none is left. Returns
// only then.
void kill_descendants();

} // namespace argosy::launch
