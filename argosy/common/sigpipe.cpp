#include "argosy/common/sigpipe.h"

#include <ctime>

namespace argosy {

namespace {

sigset_t only_sigpipe() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  return set;
}

bool is_pending() {
  sigset_t pending;
  ::sigpending(&pending);
  return ::sigismember(&pending, SIGPIPE) == 1;
}

} // namespace

// The kernel sends SIGPIPE to the thread that wrote, so the mask of this thread
// suffices. One that was pending before belongs to somebody else and stays.
WithoutSigpipe::WithoutSigpipe() {
  const sigset_t pipe = only_sigpipe();
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  was_pending_ = is_pending();
}

// Consumes a SIGPIPE raised in the scope, before unblocking would deliver it.
WithoutSigpipe::~WithoutSigpipe() {
  if (!was_pending_ && is_pending()) {
    const sigset_t pipe = only_sigpipe();
    const timespec at_once{};
    ::sigtimedwait(&pipe, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

} // namespace argosy
