#pragma once

#include <array>
#include <atomic>

#include "argosy/observe/sink.h"

namespace argosy::observe {

// Counts the sinks interested in each kind of event. A query is one relaxed
// load.
class Listeners {
 public:
  bool any(Interest interest) const {
    return counts_[static_cast<std::size_t>(interest)].load(
               std::memory_order_relaxed) != 0;
  }

  void add(const Sink& sink) { change(sink, 1); }
  void remove(const Sink& sink) { change(sink, -1); }

 private:
  void change(const Sink& sink, int by) {
    for (std::size_t i = 0; i < kNumInterests; ++i) {
      if (sink.wants(static_cast<Interest>(i))) {
        counts_[i].fetch_add(by, std::memory_order_relaxed);
      }
    }
  }

  std::array<std::atomic<int>, kNumInterests> counts_{};
};

// The sum over all observers of the process. It lets code skip the lookup of
// its rank's observer while no observer has a sink.
extern Listeners process_listeners;

} // namespace argosy::observe
