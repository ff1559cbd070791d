#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/observe/listeners.h"
#include "argosy/observe/report.h"
#include "argosy/observe/sink.h"

namespace argosy::observe {

// Receives a rank's observations and passes them to sinks. Without sinks, each
// call costs a load and a branch. Each rank has its own, see world_observer.h.
// Thread-safe.
class Observer {
 public:
  Observer() = default;
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  void add(const std::shared_ptr<Sink>& sink);

  // Does nothing if the sink was already removed, for example after it threw.
  void remove(const Sink& sink);

  bool listens(Interest interest) const { return listeners_.any(interest); }

  // The shortest report period that a sink asks for, in seconds; 0 if none
  // does.
  double report_period() const;

  // Adds a value to a series.
  void emit(std::string_view name, double value, std::int64_t step) {
    if (listens(Interest::Points)) {
      send_point(name, value, step);
    }
  }

  // count() adds to a counter, gauge() sets a value; reports contain both.
  // Nothing is counted before the first sink is added.
  void count(std::string_view name, double amount = 1) {
    if (keeps_values()) {
      keep(name, amount, true);
    }
  }
  void gauge(std::string_view name, double value) {
    if (keeps_values()) {
      keep(name, value, false);
    }
  }
  Values values() const;

  void report(const Report& report);

  // Used by Span. Time spent in Activity::Wait accumulates until take_waited().
  bool measures(Activity activity) const {
    return listens(Interest::Spans) ||
        (activity == Activity::Wait && listens(Interest::Reports));
  }
  void span(const SpanEvent& span);
  double take_waited(); // seconds waited since the last call

 private:
  bool keeps_values() const {
    return listens(Interest::Points) || listens(Interest::Reports);
  }
  void send_point(std::string_view name, double value, std::int64_t step);
  void keep(std::string_view name, double value, bool add_up);
  void send(Interest interest, const std::function<void(Sink&)>& give);

  Listeners listeners_;
  std::atomic<std::int64_t> waited_ns_{0};

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Sink>> sinks_;          // guarded by mutex_
  std::map<std::string, double, std::less<>> values_; // guarded by mutex_
};

} // namespace argosy::observe
