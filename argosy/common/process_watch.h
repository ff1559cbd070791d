#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

namespace argosy {

// What /proc says of a process.
struct ProcessState {
  pid_t parent = 0;
  char state = '?';       // 'R', 'S', 'D', 'T' (stopped), 'Z' (zombie), ...
  std::string start_time; // ticks since boot; with the pid, it is unique

  bool ended() const { return state == 'Z' || state == 'X'; }
  bool stopped() const { return state == 'T' || state == 't'; }
};

// nullopt if there is no such process, or /proc hides it.
std::optional<ProcessState> read_process_state(pid_t pid);

// Tells whether a process has ended, within microseconds, also before its
// parent has reaped it. Never mistakes a later process with the same pid for
// it. Those who watch the same process share one descriptor; where the kernel
// gives none (before Linux 5.3, or when too many files are open), the start
// time in /proc serves. Thread-safe.
class ProcessWatch {
 public:
  // Of a process that runs when this is called.
  static std::shared_ptr<const ProcessWatch> of(pid_t pid);

  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  bool has_ended() const;
  bool is_stopped() const;

  // Returns false if it cannot be sent, with errno.
  bool send(int signal) const;

  // Becomes readable when the process ends; -1 if there is none.
  int fd() const { return fd_; }
  pid_t pid() const { return pid_; }

 private:
  explicit ProcessWatch(pid_t pid);

  const pid_t pid_;
  const int fd_;
  const std::string start_time_; // empty: not known
};

} // namespace argosy
