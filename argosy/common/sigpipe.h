#pragma once

#include <signal.h>

namespace argosy {

// Blocks SIGPIPE for this thread while in scope, so that writing to a closed
// connection fails with EPIPE instead of killing the process. For libraries
// that write without MSG_NOSIGNAL (Gloo). Threads started in the scope inherit
// the mask. The process's signal disposition, which belongs to the user, is
// unchanged.
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
