#pragma once

#include <cstdint>
#include <string_view>

#include "argosy/observe/observer.h"

namespace argosy::observe {

// Measures the scope that it is in, when somebody listens; else it costs a load
// and a branch. The spans of a thread nest. `name` must outlive it.
//
//   const observe::Span span("forward");
//
// Activity::Wait marks time that a rank spends waiting for others. It is what
// tells a slow rank from those that wait for it.
class Span {
 public:
  // For the observer of the calling thread's world; nothing without a world.
  explicit Span(std::string_view name, Activity activity = Activity::Compute) {
    if (process_listeners.any(Interest::Stretches) ||
        (activity == Activity::Wait &&
         process_listeners.any(Interest::Reports))) {
      begin_in_world(name, activity);
    }
  }

  // `observer` must outlive it.
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
