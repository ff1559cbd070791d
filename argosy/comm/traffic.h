#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "argosy/comm/operation/observer.h"

namespace argosy::comm {

// How much one rank communicated: calls, and the bytes of its own buffers (the
// longer of input and output).
struct Traffic {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;

  bool operator==(const Traffic&) const = default;
};

// Counts the operations of a group by kind. Thread-safe.
class TrafficMeter final : public OperationObserver {
 public:
  Token on_issue(const Call& call, const std::vector<int>& /*ranks*/) override {
    Counts& counts = counts_[static_cast<std::size_t>(call.kind)];
    counts.calls.fetch_add(1, std::memory_order_relaxed);
    counts.bytes.fetch_add(
        static_cast<std::uint64_t>(call.bytes), std::memory_order_relaxed);
    return 0;
  }

  Traffic of(OpKind kind) const {
    const Counts& counts = counts_.at(static_cast<std::size_t>(kind));
    return {counts.calls.load(), counts.bytes.load()};
  }

  Traffic total() const {
    Traffic sum;
    for (const Counts& counts : counts_) {
      sum.calls += counts.calls.load();
      sum.bytes += counts.bytes.load();
    }
    return sum;
  }

 private:
  struct Counts {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  std::array<Counts, kNumOpKinds> counts_;
};

} // namespace argosy::comm
