#include "argosy/comm/wait_listener.h"

namespace argosy::comm {

namespace {

thread_local WaitListener* innermost_wait = nullptr;

} // namespace

WaitListener::WaitListener() : outer_(innermost_wait) {
  innermost_wait = this;
}

WaitListener::~WaitListener() {
  innermost_wait = outer_;
}

WaitListener* WaitListener::current() {
  return innermost_wait;
}

} // namespace argosy::comm
