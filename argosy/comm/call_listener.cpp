#include "argosy/comm/call_listener.h"

namespace argosy::comm {

namespace {

thread_local CallListener* innermost = nullptr;

} // namespace

CallListener::CallListener() : outer_(innermost) {
  innermost = this;
}

CallListener::~CallListener() {
  innermost = outer_;
}

void CallListener::tell(const Call& call) {
  for (CallListener* each = innermost; each != nullptr; each = each->outer_) {
    each->on_call(call);
  }
}

} // namespace argosy::comm
