#include "argosy/observe/world_observer.h"

#include "argosy/observe/span.h"
#include "argosy/world/world.h"

namespace argosy::observe {

std::shared_ptr<Observer> observer_of(World& world) {
  return world.attached<Observer>([] { return std::make_shared<Observer>(); });
}

std::shared_ptr<Observer> current_observer() {
  const auto world = current_world();
  return world ? observer_of(*world) : nullptr;
}

void emit_in_world(std::string_view name, double value, std::int64_t step) {
  if (const auto observer = current_observer()) {
    observer->emit(name, value, step);
  }
}

void count_in_world(std::string_view name, double amount) {
  if (const auto observer = current_observer()) {
    observer->count(name, amount);
  }
}

void gauge_in_world(std::string_view name, double value) {
  if (const auto observer = current_observer()) {
    observer->gauge(name, value);
  }
}

// Reached only while some observer of the process listens (see listeners.h), so
// the lookup of the world costs nothing otherwise.
void Span::begin_in_world(std::string_view name, Activity activity) {
  auto observer = current_observer();
  if (observer && observer->measures(activity)) {
    begin(std::move(observer), name, activity);
  }
}

} // namespace argosy::observe
