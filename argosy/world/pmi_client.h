#pragma once

#include <map>
#include <string>

#include "argosy/common/deadline.h"
#include "argosy/common/environment.h"

namespace argosy::world {

// A client of a process manager that speaks PMI-1: lines of `name=value` words
// over an inherited descriptor (PMI_FD) or a new connection (PMI_PORT). Used by
// Hydra, Intel MPI and MVAPICH.
//
// A process can have one client only, and after close() MPI_Init would fail.
// All methods throw TimeoutError at the deadline, and SystemError when the
// manager refuses or is gone.
class PmiClient {
 public:
  PmiClient(const Environment& env, Deadline deadline);
  ~PmiClient();
  PmiClient(const PmiClient&) = delete;
  PmiClient& operator=(const PmiClient&) = delete;

  void put(const std::string& key, const std::string& value);
  std::string get(const std::string& key);

  // Blocks until all processes of the job have called it.
  void barrier();

  // Signs off; otherwise the manager assumes that the process crashed.
  void close();

 private:
  using Words = std::map<std::string, std::string>;

  // Sends a line and returns the words of the answer, whose cmd must be
  // `answer`.
  Words ask(const std::string& line, const std::string& answer);
  void send(const std::string& line);
  Words receive(const std::string& answer);
  std::string receive_line();
  void introduce(const Environment& env);

  int fd_ = -1;
  bool connected_ = false; // fd_ must be closed
  Deadline deadline_;
  std::string unread_; // bytes after the last complete line
  std::string space_;  // the job's key space
};

} // namespace argosy::world
