#include "argosy/comm/call_listener.h"

namespace argosy::comm {

namespace {

thread_local CallListener* innermost_call = nullptr;

} // namespace

CallListener::CallListener() : outer_(innermost_call) {
  innermost_call = this;
}

CallListener::~CallListener() {
  innermost_call = outer_;
}

void CallListener::tell(const Call& call) {
  for (CallListener* each = innermost_call; each != nullptr;
       each = each->outer_) {
    each->on_call(call);
  }
}

} // namespace argosy::comm
