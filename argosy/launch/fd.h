#pragma once

#include <string>

namespace argosy::launch {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { close(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void close();

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};

// Both ends are closed on exec. Throws SystemError.
Pipe make_pipe();

// Creates or empties the file for writing; closed on exec. Throws SystemError.
Fd create_file(const std::string& path);

// /dev/null for reading and writing.
Fd open_null();

// Opens /dev/null wherever descriptors 0 to 2 are closed: else the next pipe
// becomes somebody's standard input.
void ensure_stdio();

// Writes all of it unless the other end is gone or the disk full: then the rest
// is dropped and the answer false.
bool write_all(int fd, const char* data, std::size_t size);

} // namespace argosy::launch
