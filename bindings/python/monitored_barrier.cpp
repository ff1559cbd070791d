#include "bindings/python/monitored_barrier.h"

#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::python {

namespace {

constexpr auto kPassed = "passed";

std::vector<std::uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

bool comes(c10d::Store& store, const std::string& key, Deadline deadline) {
  // After the deadline, ranks that have come must not be called missing.
  if (store.check({key})) {
    return true;
  }
  try {
    store.wait({key}, deadline.remaining(std::chrono::hours(24)));
    return true;
  } catch (const std::exception&) {
    return false; // stores differ in whether and what they throw
  }
}

std::vector<std::string> missing_ranks(
    c10d::Store& store,
    const std::string& prefix,
    int num_ranks,
    Deadline deadline,
    bool all) {
  std::vector<std::string> missing;
  for (int peer = 1; peer < num_ranks && (all || missing.empty()); ++peer) {
    if (!comes(store, str(prefix, peer), deadline)) {
      missing.push_back(str(peer));
    }
  }
  return missing;
}

} // namespace

// Goes through the store and not the backend, so that it can name the ranks
// that hang: each rank but 0 sets a key, rank 0 waits for all and writes a
// verdict. Linear for rank 0. `number` makes the keys of each barrier unique.
void monitored_barrier(
    c10d::Store& store,
    int rank,
    int num_ranks,
    int number,
    std::chrono::milliseconds timeout,
    bool name_all) {
  const std::string prefix = str("monitored_barrier/", number, "/");
  const std::string verdict = prefix + "verdict";
  if (rank == 0) {
    if (timeout.count() <= 0) {
      throw TimeoutError(
          "Rank 0 timed out in monitoredBarrier: a limit of no time");
    }
    const auto missing = missing_ranks(
        store, prefix, num_ranks, Deadline::after(timeout), name_all);
    const std::string text = missing.empty()
        ? kPassed
        : str(missing.size() == 1 ? "Rank " : "Ranks ",
              join(missing, ", "),
              " failed to pass monitoredBarrier in ",
              duration_text(timeout));
    store.set(verdict, bytes(text));
    if (!missing.empty()) {
      throw TimeoutError(text);
    }
    return;
  }
  store.set(str(prefix, rank), {1});
  // Rank 0 may have come later, and then wait for as long.
  const bool came = comes(store, verdict, Deadline::after(2 * timeout));
  const auto value = came ? store.get(verdict) : bytes("no word from it");
  const std::string text(value.begin(), value.end());
  if (text != kPassed) {
    throw TimeoutError(str_format(
        "Rank {} successfully reached monitoredBarrier, but received errors "
        "while waiting for send/recv from rank 0: {}",
        rank,
        text));
  }
}

} // namespace argosy::python
