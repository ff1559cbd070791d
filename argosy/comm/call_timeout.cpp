#include "argosy/comm/call_timeout.h"

namespace argosy {

namespace {

thread_local std::optional<std::chrono::milliseconds> innermost;

} // namespace

CallTimeout::CallTimeout(std::chrono::milliseconds timeout)
    : before_(innermost) {
  innermost = timeout;
}

CallTimeout::~CallTimeout() {
  innermost = before_;
}

std::optional<std::chrono::milliseconds> CallTimeout::current() {
  return innermost;
}

} // namespace argosy
