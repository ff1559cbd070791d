#pragma once

#include <cstdint>
#include <string_view>

#include "argosy/observe/observer.h"

namespace argosy::observe {

// Measures the enclosing scope if a sink wants spans; otherwise it costs a load
// and a branch. Spans of a thread nest. `name` must outlive the span.
//
//   const observe::Span span("forward");
//
// Activity::Wait marks time spent waiting for other ranks, which distinguishes
// a slow rank from those that wait for it.
class Span {
 public:
  // Reports to the observer of the calling thread's world; no-op without a
  // world.
  explicit Span(std::string_view name, Activity activity = Activity::Compute) {
    if (process_listeners.any(Interest::Spans) ||
        (activity == Activity::Wait &&
         process_listeners.any(Interest::Reports))) {
      begin_in_world(name, activity);
    }
  }

  // `observer` must outlive the span.
  Span(
      Observer& observer,
      std::string_view name,
      Activity activity = Activity::Compute) {
    if (observer.measures(activity)) {
      begin({std::shared_ptr<void>(), &observer}, name, activity);
    }
  }

  ~Span() {
    if (observer_) {
      end();
    }
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  void begin_in_world(std::string_view name, Activity activity);
  void begin(
      std::shared_ptr<Observer> observer,
      std::string_view name,
      Activity activity);
  void end();

  std::shared_ptr<Observer> observer_;
  std::string_view name_;
  Activity activity_ = Activity::Compute;
  std::int64_t begin_ns_ = 0;
};

} // namespace argosy::observe
