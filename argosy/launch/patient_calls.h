#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/launch/options.h"

namespace argosy::launch {

// How often launchers look into their store.
inline constexpr std::chrono::milliseconds kStorePoll{50};
// Limits a single call of the store; PatientCalls repeats it.
inline constexpr std::chrono::milliseconds kStoreTry{3'000};
// The same while workers run: signals are not handled meanwhile.
inline constexpr std::chrono::milliseconds kShortStoreTry{1'000};

// Repeats calls of the store where launchers meet. It may be silent for a
// while: its leader died, a network is down. Not installed.
class PatientCalls {
 public:
  // `pause` waits for a time; it may throw, as for a signal.
  PatientCalls(
      const RdzvOptions& options,
      std::function<void(std::chrono::milliseconds)> pause)
      : longest_outage_(
            options.backend == RdzvBackend::Etcd
                ? options.timeout
                : std::max(kTcpOutage, 2 * options.keep_alive)),
        pause_(std::move(pause)) {}

  std::chrono::milliseconds longest_outage() const { return longest_outage_; }

  // Runs `call` until it succeeds, each try for as long as `each`, also at the
  // deadline. Throws what the last try threw.
  template <typename Call>
  auto operator()(
      const Deadline& deadline,
      const Call& call,
      std::chrono::milliseconds each = kStoreTry) const {
    std::optional<Deadline> outage;
    for (int num_errors = 0;;) {
      try {
        return call(Deadline::after(each));
      } catch (const TimeoutError&) {
        if (!outage) {
          outage = deadline.earlier(longest_outage_);
        }
        if (outage->expired()) {
          throw;
        }
      } catch (const StoreError&) {
        // Also of a call that must not be repeated blindly, whose connection
        // broke. Ours can be repeated.
        if (++num_errors == kMostStoreErrors) {
          throw;
        }
      }
      pause_(kStorePoll);
    }
  }

 private:
  // How long a store that a launcher serves may be silent. Without that
  // launcher it never comes back; etcd does.
  static constexpr std::chrono::milliseconds kTcpOutage{10'000};
  // A store that says so often in a row that it is lost, is.
  static constexpr int kMostStoreErrors = 3;

  const std::chrono::milliseconds longest_outage_;
  const std::function<void(std::chrono::milliseconds)> pause_;
};

} // namespace argosy::launch
