#pragma once

#include <sys/types.h>

#include <string>

namespace argosy {

// Starts `/bin/sh -c command` in a process group of its own, with these
// descriptors as standard input and output; they stay the caller's. Throws
// SystemError. Not installed.
pid_t start_shell(const std::string& command, int input, int output);

// Kills what start_shell() started and whatever that started in its group, and
// reaps the shell. Returns its status, as waitpid() does.
int end_shell(pid_t pid);

} // namespace argosy
