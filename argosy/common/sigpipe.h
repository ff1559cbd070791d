#pragma once

#include <signal.h>

namespace argosy {

// Within its scope, a write of this thread to a peer that is gone fails with
// EPIPE and does not end the process. For libraries (Gloo) that write without
// MSG_NOSIGNAL. Threads started within the scope stay protected. What the
// process does on SIGPIPE elsewhere is not touched: that is the user's choice.
class WithoutSigpipe {
 public:
  WithoutSigpipe();
  ~WithoutSigpipe();
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t before_{};
  bool was_pending_ = false;
};

} // namespace argosy
