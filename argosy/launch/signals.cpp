#include "argosy/launch/signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "argosy/common/error.h"

namespace argosy::launch {

namespace {

// nohup ignores SIGHUP for the whole job, and a shell does so with SIGINT for
// background jobs. A signalfd would undo that.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 &&
      action.sa_handler == SIG_IGN;
}

} // namespace

SignalSource::SignalSource(const std::vector<int>& signals) {
  ::sigemptyset(&set_);
  ::sigaddset(&set_, SIGCHLD);
  for (const int signal : signals) {
    if (!is_ignored(signal)) {
      ::sigaddset(&set_, signal);
    }
  }
  sigset_t blocked = set_;
  // With SIGPIPE blocked, a write to a closed console fails with EPIPE instead
  // of ending the launcher.
  ::sigaddset(&blocked, SIGPIPE);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  fd_ = Fd(::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) {
    throw SystemError(with_errno("[launch.signals] signalfd"));
  }
}

std::optional<int> SignalSource::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof(info)) != sizeof(info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

int SignalSource::wait() {
  while (true) {
    if (const auto signal = next()) {
      return *signal;
    }
    pollfd ready{fd_.get(), POLLIN, 0};
    ::poll(&ready, 1, -1);
  }
}

} // namespace argosy::launch
