#include "argosy/observe/span.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "argosy/observe/clock.h"

namespace argosy::observe {

void Span::begin(
    std::shared_ptr<Observer> observer,
    std::string_view name,
    Activity activity) {
  observer_ = std::move(observer);
  name_ = name;
  activity_ = activity;
  begin_ns_ = unix_ns();
}

// Unix times, so that the traces of several hosts fit together.
void Span::end() {
  observer_->span(
      {.name = name_,
       .activity = activity_,
       .begin_ns = begin_ns_,
       // The wall clock may be set back.
       .end_ns = std::max(begin_ns_, unix_ns()),
       .thread = std::hash<std::thread::id>()(std::this_thread::get_id())});
}

} // namespace argosy::observe
