#include "argosy/ps/table/shell_filter.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/process_status.h"
#include "argosy/common/process_watch.h"
#include "argosy/common/shell.h"

namespace argosy::ps {

namespace {

// Closes a descriptor at the end of its scope.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
    if (fd_ < 0) {
      throw SystemError(with_errno(str("[ps.convert] cannot open ", path)));
    }
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd() const { return fd_; }

 private:
  const int fd_;
};

pid_t start_filter(
    const std::string& command,
    const std::string& input,
    const std::string& output) {
  const OpenFile in(input, O_RDONLY);
  const OpenFile out(output, O_WRONLY | O_CREAT | O_TRUNC);
  return start_shell(command, in.fd(), out.fd());
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
      start_filter(command_, (folder_.path() / "input").string(), output());
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
  const int status = end_shell(pid);
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
