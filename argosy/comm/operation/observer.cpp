#include "argosy/comm/operation/observer.h"

#include "argosy/common/thread_context.h"

namespace argosy::comm {

namespace {

struct CurrentObserver {
  ThreadObserver* pointer = nullptr;
};

ThreadObserver*& innermost_observer() {
  return of_thread<CurrentObserver>().pointer;
}

} // namespace

ThreadObserver::ThreadObserver(Waits waits)
    : waits_(waits), outer_(innermost_observer()) {
  innermost_observer() = this;
}

ThreadObserver::~ThreadObserver() {
  innermost_observer() = outer_;
}

ThreadObserver* ThreadObserver::of_waits() {
  ThreadObserver* each = innermost_observer();
  while (each != nullptr && each->waits_ == Waits::Ignored) {
    each = each->outer_;
  }
  return each;
}

void ThreadObserver::tell_issue(
    const Call& call, const std::vector<int>& ranks) {
  for (ThreadObserver* each = innermost_observer(); each != nullptr;
       each = each->outer_) {
    each->on_issue(call, ranks);
  }
}

} // namespace argosy::comm
