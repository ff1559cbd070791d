#include "argosy/world/job_key.h"

#include <sys/socket.h>
#include <unistd.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy {

namespace {

// Hydra gives each process one end of a socket pair, and the kernel knows who
// created it. Asking does not disturb what MPI sends through it.
int launcher_pid(const Environment& env) {
  const auto fd = parse_int(env.get("PMI_FD", ""));
  ucred peer{};
  socklen_t size = sizeof(peer);
  const bool known = fd && *fd >= 0 && *fd < 65536 &&
      ::getsockopt(
          static_cast<int>(*fd), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
      peer.pid > 0;
  return known ? peer.pid : ::getppid();
}

} // namespace

std::optional<std::string> process_start_time(int pid) {
  const auto stat = read_file(str("/proc/", pid, "/stat"));
  // The second field, the program name, may contain spaces and parentheses.
  const std::size_t name_end = stat ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  constexpr std::size_t kStartTime = 20; // counted after the name's ')'
  const auto fields = split(stat->substr(name_end + 1), ' ');
  if (fields.size() <= kStartTime) {
    return std::nullopt;
  }
  // A zombie counts as ended.
  return fields[1] == "Z" ? std::nullopt : std::optional(fields[kStartTime]);
}

std::string local_job_key(const Environment& env) {
  const int pid = launcher_pid(env);
  return str(pid, ".", process_start_time(pid).value_or("0"));
}

} // namespace argosy
