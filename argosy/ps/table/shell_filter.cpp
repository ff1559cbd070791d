#include "argosy/ps/table/shell_filter.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "argosy/common/error.h"
#include "argosy/common/process_status.h"
#include "argosy/common/process_watch.h"

namespace argosy::ps {

namespace {

pid_t start_shell(
    const std::string& command,
    const std::string& input,
    const std::string& output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(
      &actions, STDIN_FILENO, input.c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(
      &actions,
      STDOUT_FILENO,
      output.c_str(),
      O_WRONLY | O_CREAT | O_TRUNC,
      0600);
  // A group of its own: what the shell starts ends with it.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  std::string shell = "/bin/sh";
  std::string flag = "-c";
  std::string script = command;
  char* const arguments[] = {shell.data(), flag.data(), script.data(), nullptr};
  pid_t pid = -1;
  errno = ::posix_spawn(
      &pid, shell.c_str(), &actions, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) {
    throw SystemError(with_errno("[ps.convert] cannot start /bin/sh"));
  }
  return pid;
}

} // namespace

ShellFilter::ShellFilter(std::string command)
    : command_(std::move(command)),
      folder_("argosy_filter"),
      input_(::open(
          (folder_.path() / "input").c_str(),
          O_WRONLY | O_CREAT | O_CLOEXEC,
          0600)) {
  if (input_ < 0) {
    throw SystemError(with_errno(
        str("[ps.convert] cannot write to ", folder_.path().string())));
  }
}

ShellFilter::~ShellFilter() {
  ::close(input_);
}

void ShellFilter::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(input_, text.data(), text.size());
    if (written <= 0 && errno != EINTR) {
      throw SystemError(with_errno(
          str("[ps.convert] cannot write to ", folder_.path().string())));
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
}

void ShellFilter::run(Deadline deadline) {
  const pid_t pid =
      start_shell(command_, (folder_.path() / "input").string(), output());
  const auto watch = ProcessWatch::of(pid);
  while (!watch->has_ended() && !deadline.expired()) {
    constexpr std::chrono::milliseconds kSlice(100);
    pollfd ended{watch->fd(), POLLIN, 0};
    ::poll(
        &ended,
        watch->fd() < 0 ? 0 : 1,
        static_cast<int>(deadline.remaining(kSlice).count()));
  }
  const bool late = !watch->has_ended();
  if (late) {
    ::kill(-pid, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (late) {
    throw TimeoutError(
        str("[ps.convert] '",
            command_,
            "' took more than ",
            deadline.limit_text()));
  }
  const ProcessStatus how = ProcessStatus::from_wait(status);
  if (!how.success()) {
    throw SystemError(
        str("[ps.convert] '", command_, "' failed: ", how.text()));
  }
}

std::string ShellFilter::output() const {
  return (folder_.path() / "output").string();
}

} // namespace argosy::ps
