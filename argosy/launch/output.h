#pragma once

#include <string>
#include <vector>

#include "argosy/launch/fd.h"

struct pollfd;

namespace argosy::launch {

// Copies workers' output from pipes to files, unchanged, and to the console,
// line by line with a prefix. Each line is one write, so that lines of
// different workers do not mix.
class OutputPump {
 public:
  // Takes ownership of the pipe and file; `console_fd` stays the caller's.
  void add(Fd pipe, Fd file, int console_fd, std::string prefix);

  // Appends the descriptors that poll() must watch.
  void watch(std::vector<pollfd>& polled) const;

  // Copies what is readable now without blocking; removes pipes at end of file.
  void pump();

  // Like pump(), then removes all pipes.
  void finish();

  bool empty() const { return streams_.empty(); }

 private:
  struct Stream {
    Fd pipe;
    Fd file;
    int console_fd = -1;
    std::string prefix;
    std::string partial; // the last, incomplete line
  };

  // Returns false at the end of the stream.
  static bool pump(Stream& stream);
  static void take(Stream& stream, const char* data, std::size_t size);
  static void end(Stream& stream);

  std::vector<Stream> streams_;
};

} // namespace argosy::launch
