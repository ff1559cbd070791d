#include "argosy/comm/call_timeout.h"

#include "argosy/common/thread_context.h"

namespace argosy {

namespace {

struct CurrentTimeout {
  std::optional<std::chrono::milliseconds> value;
};

std::optional<std::chrono::milliseconds>& innermost_timeout() {
  return of_thread<CurrentTimeout>().value;
}

} // namespace

CallTimeout::CallTimeout(std::chrono::milliseconds timeout)
    : before_(innermost_timeout()) {
  innermost_timeout() = timeout;
}

CallTimeout::~CallTimeout() {
  innermost_timeout() = before_;
}

std::optional<std::chrono::milliseconds> CallTimeout::current() {
  return innermost_timeout();
}

} // namespace argosy
