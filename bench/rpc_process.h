#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

// A contestant of bench/rpc.cpp that runs as a process and answers lines.
namespace argosy::bench {

class LineProcess {
 public:
  // Starts the program; `command[0]` is its path. Throws SystemError.
  explicit LineProcess(const std::vector<std::string>& command);

  // Closes its input, which ends it, and waits for it.
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // The next line of its output. Throws SystemError if it has ended.
  std::string read_line();

  // Writes a line and reads the number that comes back.
  double ask(const std::string& line);

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

} // namespace argosy::bench
