#include "argosy/observe/observer.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/observe/clock.h"

namespace argosy::observe {

// constinit: spans in constructors of static objects may read it first.
constinit Listeners process_listeners;

// listeners_ ends with the observer; the counts of the process do not.
Observer::~Observer() {
  for (const auto& sink : sinks_) {
    process_listeners.remove(*sink);
  }
}

void Observer::add(const std::shared_ptr<Sink>& sink) {
  ARGOSY_CHECK(sink != nullptr, "[observe.add] the sink is null");
  const std::lock_guard lock(mutex_);
  sinks_.push_back(sink);
  listeners_.add(*sink);
  process_listeners.add(*sink);
}

void Observer::remove(const Sink& sink) {
  std::shared_ptr<Sink> removed; // its destructor must run without the lock
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      sinks_, [&](const auto& each) { return each.get() == &sink; });
  if (found != sinks_.end()) {
    removed = std::move(*found);
    sinks_.erase(found);
    listeners_.remove(*removed);
    process_listeners.remove(*removed);
  }
}

double Observer::report_period() const {
  const std::lock_guard lock(mutex_);
  double period = 0;
  for (const auto& sink : sinks_) {
    const double wish = sink->report_period().count();
    if (sink->wants(Interest::Reports) && wish > 0) {
      period = period == 0 ? wish : std::min(period, wish);
    }
  }
  return period;
}

void Observer::send_point(
    std::string_view name, double value, std::int64_t step) {
  const Point point{name, value, step, unix_seconds()};
  send(Interest::Points, [&](Sink& sink) { sink.on_point(point); });
}

void Observer::report(const Report& report) {
  send(Interest::Reports, [&](Sink& sink) { sink.on_report(report); });
}

void Observer::span(const SpanEvent& span) {
  if (span.activity == Activity::Wait) {
    // Relaxed: it is a sum, which orders no other memory.
    waited_ns_.fetch_add(
        span.end_ns - span.begin_ns, std::memory_order_relaxed);
  }
  if (listens(Interest::Spans)) {
    send(Interest::Spans, [&](Sink& sink) { sink.on_span(span); });
  }
}

double Observer::take_waited() {
  return static_cast<double>(waited_ns_.exchange(0)) * 1e-9;
}

// A failed sink is removed after the loop, which iterates over sinks_ with the
// lock held.
void Observer::send(Interest interest, const std::function<void(Sink&)>& give) {
  std::vector<std::shared_ptr<Sink>> failed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& sink : sinks_) {
      try {
        if (sink->wants(interest)) {
          give(*sink);
        }
      } catch (const std::exception& error) {
        log::warn("[observe] a sink failed and is removed: ", error.what());
        failed.push_back(sink);
      }
    }
  }
  for (const auto& sink : failed) {
    remove(*sink);
  }
}

void Observer::keep(std::string_view name, double value, bool add_up) {
  const std::lock_guard lock(mutex_);
  auto found = values_.find(name);
  if (found == values_.end()) {
    found = values_.emplace(std::string(name), 0).first;
  }
  found->second = add_up ? found->second + value : value;
}

Values Observer::values() const {
  const std::lock_guard lock(mutex_);
  return {values_.begin(), values_.end()};
}

} // namespace argosy::observe
