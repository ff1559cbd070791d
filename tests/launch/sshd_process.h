#pragma once

#include <sys/types.h>

#include <string>

#include "argosy/common/file.h"
#include "argosy/common/net.h"

namespace argosy::testing {

// A real sshd on all loopback addresses, with keys of its own, for the user who
// runs the test. It dies with this object, or with the thread that started it.
class SshdProcess {
 public:
  SshdProcess();
  ~SshdProcess();

  // What ssh needs to reach it.
  std::string ssh_args() const;

  // What sshd had to say, for failures.
  std::string log() const;

 private:
  TempDir folder_;
  ReservedPort port_;
  pid_t pid_ = -1;
};

} // namespace argosy::testing
