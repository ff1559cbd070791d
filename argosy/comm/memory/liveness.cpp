#include "argosy/comm/memory/liveness.h"

#include <poll.h>

namespace argosy::comm::memory {

Liveness::Liveness(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) {
    watches_.push_back(process < 0 ? nullptr : ProcessWatch::of(process));
  }
}

bool Liveness::is_dead(int rank) const {
  const ProcessWatch* const process = watch(rank);
  return process != nullptr && process->has_ended();
}

bool Liveness::is_any_dead() const {
  std::vector<pollfd> entries;
  for (const auto& each : watches_) {
    if (each && each->fd() >= 0) {
      entries.push_back({each->fd(), POLLIN, 0});
    } else if (each && each->has_ended()) {
      return true;
    }
  }
  return ::poll(entries.data(), entries.size(), 0) > 0;
}

} // namespace argosy::comm::memory
