#pragma once

#include <string>
#include <vector>

#include "argosy/launch/fd.h"

struct pollfd;

namespace argosy::launch {

// Copies what workers write into pipes to files, as it is, and to the console,
// line by line behind a prefix. A line reaches the console in one write, so
// lines of different workers never mix.
class OutputPump {
 public:
  // Takes over the read end. `console_fd` stays the caller's.
  void add(Fd pipe, Fd file, int console_fd, std::string prefix);

  // Appends what poll() must watch.
  void watch(std::vector<pollfd>& polled) const;

  // Copies all that is readable now, and drops pipes that have ended.
  void pump();

  // As pump(), and drops all pipes, ended or not.
  void finish();

  bool empty() const { return streams_.empty(); }

 private:
  struct Stream {
    Fd pipe;
    Fd file;
    int console_fd = -1;
    std::string prefix;
    std::string partial; // the line that has no end yet
  };

  // False at the end of the stream.
  static bool pump(Stream& stream);
  static void take(Stream& stream, const char* data, std::size_t size);
  static void end(Stream& stream);

  std::vector<Stream> streams_;
};

} // namespace argosy::launch
