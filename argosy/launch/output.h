#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "argosy/launch/console.h"
#include "argosy/launch/fd.h"

struct pollfd;

namespace argosy::launch {

// Copies workers' output from pipes to files, unchanged, and to the console,
// line by line with a prefix. Lines are never cut, so those of different
// workers do not mix.
//
// A worker waits while its console reads more slowly than it writes. A console
// that does not read at all holds nobody up: see Console. A file that cannot be
// written, on a full disk, is named once.
class OutputPump {
 public:
  explicit OutputPump(Consoles& consoles) : consoles_(consoles) {}

  // Takes ownership of the pipe and file; `console_fd` is that of stdout or
  // stderr.
  void add(
      Fd pipe,
      Fd file,
      std::string file_name,
      int console_fd,
      std::string prefix);

  // Appends the descriptors that poll() must watch.
  void watch(std::vector<pollfd>& polled) const;

  // How long poll() may take, at most `most`.
  std::chrono::milliseconds wait_time(std::chrono::milliseconds most) const;

  // Copies what is readable now without blocking; removes pipes at end of file.
  void pump();

  // Copies all that was written, then removes all pipes.
  void finish();

  bool empty() const { return streams_.empty(); }

 private:
  struct Stream {
    Fd pipe;
    Fd file;
    std::string file_name;
    Console* console = nullptr;
    std::string prefix;
    std::string partial{};      // the last, incomplete line
    std::size_t bytes_lost = 0; // that the file did not take
  };

  enum class Progress { Empty, More, Ended }; // of a stream's pipe

  Progress pump(Stream& stream);
  void take(Stream& stream, const char* data, std::size_t size);
  void write_file(Stream& stream, const char* data, std::size_t size);
  void end(Stream& stream);

  Consoles& consoles_;
  std::vector<Stream> streams_;
};

} // namespace argosy::launch
