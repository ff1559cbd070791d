// What observing costs: next to nothing while nobody listens.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "argosy/observe/observer.h"
#include "argosy/observe/span.h"
#include "argosy/observe/step_meter.h"
#include "argosy/observe/world_observer.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/observe/recording_sink.h"

namespace argosy::observe {
namespace {

// Nanoseconds for one call: the least of some rounds, as others use the machine
// too.
template <typename F>
double ns_per_call(const char* what, int calls, const F& call) {
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < 10; ++round) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      call(i);
      asm volatile("" ::: "memory"); // the loop stays
    }
    const std::chrono::duration<double, std::nano> took =
        std::chrono::steady_clock::now() - began;
    least = std::min(least, took.count() / calls);
  }
  std::printf("%-44s %7.2f ns\n", what, least);
  return least;
}

// Ten times what it takes, and less than reading a clock or taking a lock.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
constexpr double kMostNs = 5;
#else
constexpr double kMostNs = 1000;
#endif

TEST(Cost, IsALoadAndABranchWhenNobodyListens) {
  testing::run_ranks(1, [](World& world) {
    constexpr int kCalls = 1'000'000;
    ns_per_call("an empty loop", kCalls, [](int) {});
    EXPECT_LT(
        ns_per_call("emit()", kCalls, [](int i) { emit("loss", 1.0, i); }),
        kMostNs);
    EXPECT_LT(
        ns_per_call("count()", kCalls, [](int) { count("tokens"); }), kMostNs);
    EXPECT_LT(
        ns_per_call("Span", kCalls, [](int) { const Span span("forward"); }),
        kMostNs);
    Observer& observer = *observer_of(world);
    EXPECT_LT(
        ns_per_call(
            "Observer::emit()",
            kCalls,
            [&](int i) { observer.emit("loss", 1.0, i); }),
        kMostNs);
    StepMeter meter(observer, {});
    EXPECT_LT(
        ns_per_call(
            "StepMeter::step()",
            kCalls,
            [&](int) { meter.step({.loss = 1.0, .samples = 1}); }),
        kMostNs);
  });
}

// For information: somebody listens, but does little.
class Nothing : public RecordingSink {
 public:
  Nothing() : RecordingSink({Interest::Points, Interest::Spans}) {}
  void on_point(const Point&) override {}
  void on_span(const SpanEvent&) override {}
};

TEST(Cost, IsSmallWhenSomebodyListens) {
  testing::run_ranks(1, [](World& world) {
    constexpr int kCalls = 100'000;
    Observer& observer = *observer_of(world);
    observer.add(std::make_shared<Nothing>());
    const double emitted = ns_per_call(
        "emit(), listened to", kCalls, [](int i) { emit("loss", 1.0, i); });
    ns_per_call("Observer::emit(), listened to", kCalls, [&](int i) {
      observer.emit("loss", 1.0, i);
    });
    ns_per_call(
        "Span, listened to", kCalls, [](int) { const Span span("forward"); });
    EXPECT_LT(emitted, 5000);
  });
}

} // namespace
} // namespace argosy::observe
