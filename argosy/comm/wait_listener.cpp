#include "argosy/comm/wait_listener.h"

namespace argosy::comm {

namespace {

thread_local WaitListener* innermost = nullptr;

} // namespace

WaitListener::WaitListener() : outer_(innermost) {
  innermost = this;
}

WaitListener::~WaitListener() {
  innermost = outer_;
}

WaitListener* WaitListener::current() {
  return innermost;
}

} // namespace argosy::comm
