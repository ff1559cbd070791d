#include "argosy/common/process_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <map>
#include <mutex>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/text.h"

namespace argosy {

namespace {

// A pidfd becomes readable when its process ends, also as a zombie, and never
// refers to a later process with the same pid, as kill(pid, 0) would.
int open_pidfd(pid_t pid) {
  if (fault_fails("process.pidfd")) {
    errno = EMFILE;
    return -1;
  }
  // Not pidfd_open(): glibc 2.36 declares it without extern "C".
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

// The watches of this process: descriptors would run out if each group had its
// own for each rank.
class Watches {
 public:
  template <typename Make>
  std::shared_ptr<const ProcessWatch> find(pid_t pid, const Make& make) {
    const std::lock_guard lock(mutex_);
    auto watch = watches_[pid].lock();
    // A pid that is asked for again may be that of a later process.
    if (!watch || watch->has_ended()) {
      watch = make();
      watches_[pid] = watch;
    }
    return watch;
  }

 private:
  std::mutex mutex_;
  std::map<pid_t, std::weak_ptr<const ProcessWatch>> watches_; // by mutex_
};

Watches& watches() {
  static Watches instance;
  return instance;
}

} // namespace

std::optional<ProcessState> read_process_state(pid_t pid) {
  std::ifstream file(str("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  // The program name is in parentheses and may contain any character.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > line.size()) {
    return std::nullopt;
  }
  const auto fields = split(std::string_view(line).substr(name_end + 2), ' ');
  constexpr std::size_t kStartTime = 19; // counted after the name
  const auto parent = parse_int(fields.size() > 1 ? fields[1] : "");
  if (!parent || fields.size() <= kStartTime || fields[0].empty()) {
    return std::nullopt;
  }
  return ProcessState{
      static_cast<pid_t>(*parent), fields[0][0], fields[kStartTime]};
}

std::shared_ptr<const ProcessWatch> ProcessWatch::of(pid_t pid) {
  return watches().find(pid, [&] {
    return std::shared_ptr<const ProcessWatch>(new ProcessWatch(pid));
  });
}

ProcessWatch::ProcessWatch(pid_t pid)
    : pid_(pid),
      fd_(open_pidfd(pid)),
      start_time_(read_process_state(pid).value_or(ProcessState{}).start_time) {
}

ProcessWatch::~ProcessWatch() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

bool ProcessWatch::has_ended() const {
  if (fd_ >= 0) {
    pollfd entry{fd_, POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
  }
  const auto state = read_process_state(pid_);
  if (!state) {
    // /proc may hide processes of other users, which kill() still finds.
    return ::kill(pid_, 0) != 0 && errno == ESRCH;
  }
  return state->ended() ||
      (!start_time_.empty() && state->start_time != start_time_);
}

bool ProcessWatch::is_stopped() const {
  const auto state = read_process_state(pid_);
  return state && state->stopped() && !has_ended();
}

bool ProcessWatch::send(int signal) const {
  if (fd_ >= 0) {
    return ::syscall(SYS_pidfd_send_signal, fd_, signal, nullptr, 0) == 0;
  }
  if (has_ended()) {
    errno = ESRCH;
    return false;
  }
  return ::kill(pid_, signal) == 0;
}

} // namespace argosy
