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

// Creates a pipe; both ends are close-on-exec. Throws SystemError.
Pipe make_pipe();

// Creates or truncates a file for writing; close-on-exec. Throws SystemError.
Fd create_file(const std::string& path);

// The same, but keeps what is in the file.
Fd append_file(const std::string& path);

// Opens /dev/null for reading and writing.
Fd open_null();

// Opens /dev/null for descriptors 0 to 2 that are closed; otherwise a later
// pipe would become standard input or output.
void ensure_stdio();

// Writes everything. Returns false, dropping the rest, if the other end is
// closed or the disk is full.
bool write_all(int fd, const char* data, std::size_t size);

} // namespace argosy::launch
