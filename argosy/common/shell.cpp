#include "argosy/common/shell.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "argosy/common/error.h"

namespace argosy {

pid_t start_shell(const std::string& command, int input, int output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // Threads that start a shell may have SIGPIPE blocked; commands expect it.
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::string shell = "/bin/sh";
  std::string flag = "-c";
  std::string script = command;
  char* const arguments[] = {shell.data(), flag.data(), script.data(), nullptr};
  pid_t pid = -1;
  const int error = ::posix_spawn(
      &pid, shell.c_str(), &actions, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    errno = error;
    throw SystemError(with_errno(
        str("[common.shell] cannot start /bin/sh for '", command, "'")));
  }
  return pid;
}

int end_shell(pid_t pid) {
  ::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

} // namespace argosy
