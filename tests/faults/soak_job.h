#pragma once

#include <chrono>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "tests/launch/argosy_process.h"

// A job that is hurt: its commands, what is left of them, and what they said.
namespace argosy::testing {

class SoakJob {
 public:
  // `name` marks all processes of the job, beside the number of this one:
  // another soak may run on the machine.
  explicit SoakJob(const std::string& name);

  // Starts a command of the job, one for each node.
  void start(
      const std::vector<std::string>& words,
      std::map<std::string, std::string> env,
      std::vector<std::string> before = {});

  ArgosyProcess& node(std::size_t index);

  // Waits until all commands have ended; empty if they have, else which do not.
  std::string await_end(std::chrono::seconds limit);

  // As a shell sees them, in the order of start().
  const std::vector<int>& codes() const { return codes_; }
  std::string err() const;

  // The processes of the job that still run.
  std::vector<pid_t> processes() const;

  // What the job has left behind; empty: nothing.
  std::string leftovers() const;

 private:
  const std::string token_;
  std::list<ArgosyProcess> nodes_;
  std::vector<int> codes_;
};

} // namespace argosy::testing
