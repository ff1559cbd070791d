#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "argosy/observe/listeners.h"
#include "argosy/observe/observer.h"

namespace argosy {
class World;
}

// The observer that belongs to a rank's world, and shortcuts to it.
namespace argosy::observe {

// Returns the world's observer, created on first use; it lives as long as the
// world. Thread-safe.
std::shared_ptr<Observer> observer_of(World& world);

// Returns the observer of the calling thread's world; null without a world.
std::shared_ptr<Observer> current_observer();

// Forward to the observer of the calling thread's world; do nothing without a
// world. Code that observes often should keep a pointer to its observer
// instead.
void emit_in_world(std::string_view name, double value, std::int64_t step);
void count_in_world(std::string_view name, double amount);
void gauge_in_world(std::string_view name, double value);

inline void emit(std::string_view name, double value, std::int64_t step) {
  if (process_listeners.any(Interest::Points)) {
    emit_in_world(name, value, step);
  }
}

inline void count(std::string_view name, double amount = 1) {
  if (process_listeners.any(Interest::Points) ||
      process_listeners.any(Interest::Reports)) {
    count_in_world(name, amount);
  }
}

inline void gauge(std::string_view name, double value) {
  if (process_listeners.any(Interest::Points) ||
      process_listeners.any(Interest::Reports)) {
    gauge_in_world(name, value);
  }
}

} // namespace argosy::observe
