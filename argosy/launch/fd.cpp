#include "argosy/launch/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::launch {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() {
  return std::exchange(fd_, -1);
}

void Fd::close() {
  if (fd_ >= 0) {
    ::close(release());
  }
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw SystemError(with_errno("[launch.pipe]"));
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

namespace {

Fd open_or_throw(const std::string& path, int flags) {
  Fd fd(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!fd) {
    throw SystemError(with_errno(str("[launch.open] ", path)));
  }
  return fd;
}

} // namespace

Fd create_file(const std::string& path) {
  return open_or_throw(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
}

Fd append_file(const std::string& path) {
  return open_or_throw(path, O_WRONLY | O_CREAT | O_APPEND);
}

Fd open_null() {
  return open_or_throw("/dev/null", O_RDWR);
}

// If a descriptor below 3 were free, a pipe could get its number, and what is
// meant for the console would go into that pipe.
void ensure_stdio() {
  // open() returns the lowest free number: above 2 means that all three are
  // open.
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO || fd < 0) {
      Fd(fd).close();
      return;
    }
  }
}

bool write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, data, size);
    if (written < 0 && errno == EAGAIN) {
      // Another process made the console non-blocking.
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
      continue;
    }
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return false;
    }
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

} // namespace argosy::launch
