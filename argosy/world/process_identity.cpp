#include "argosy/world/process_identity.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/world/job_key.h"

namespace argosy {

namespace {

// A pid means something only to processes that share both.
std::string pid_space() {
  std::error_code ignored;
  return str(
      trim(read_file("/proc/sys/kernel/random/boot_id").value_or("?")),
      "/",
      std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string());
}

} // namespace

// With the start time: the pid may belong to a later process.
std::string own_process_identity() {
  return str(
      pid_space(),
      " ",
      ::getpid(),
      " ",
      process_start_time(::getpid()).value_or("?"));
}

std::optional<int> ended_process(const std::string& identity) {
  const auto words = split(identity, ' ');
  const auto pid = words.size() == 3 ? parse_int(words[1]) : std::nullopt;
  if (!pid || words[0] != pid_space()) {
    return std::nullopt;
  }
  const auto number = static_cast<int>(*pid);
  const auto started = process_start_time(number);
  // /proc may hide processes of other users, which kill() still finds.
  const bool hidden = !started && ::kill(number, 0) != 0 && errno == EPERM;
  const bool runs = words[2] == "?" || hidden || started == words[2];
  return runs ? std::nullopt : std::optional(number);
}

std::string process_key(int rank) {
  return str("process/", rank);
}

} // namespace argosy
