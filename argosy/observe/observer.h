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

// Where a rank's observations meet those who listen. Without sinks every call
// is one load and a branch. Each rank has one of its own, see current.h.
// Thread-safe.
class Observer {
 public:
  Observer() = default;
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  void add(const std::shared_ptr<Sink>& sink);

  // Does nothing for a sink that is not there, as after it threw.
  void remove(const Sink& sink);

  bool listens(Interest interest) const { return listeners_.any(interest); }

  // The shortest that a sink for reports wishes, in seconds; 0 without any.
  double report_period() const;

  // One more value of a series.
  void emit(std::string_view name, double value, std::int64_t step) {
    if (listens(Interest::Points)) {
      send_point(name, value, step);
    }
  }

  // Adds to a counter, or sets a gauge: reports carry their values. What
  // happens before anybody listens is not counted.
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

  // For Span. Stretches of Activity::Wait add up until they are taken.
  bool measures(Activity activity) const {
    return listens(Interest::Stretches) ||
        (activity == Activity::Wait && listens(Interest::Reports));
  }
  void stretch(const Stretch& stretch);
  double take_waited(); // seconds since the last call

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
