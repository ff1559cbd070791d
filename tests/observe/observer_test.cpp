// Observers, spans and the meter of steps, without ranks.

#include "argosy/observe/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "argosy/common/error.h"
#include "argosy/observe/clock.h"
#include "argosy/observe/span.h"
#include "argosy/observe/step_meter.h"
#include "tests/observe/recording_sink.h"

namespace argosy::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using enum Interest;

std::shared_ptr<RecordingSink> listen(
    Observer& observer, std::vector<Interest> interests, double period = 1) {
  auto sink = std::make_shared<RecordingSink>(std::move(interests), period);
  observer.add(sink);
  return sink;
}

TEST(Observer, GivesPointsToThoseWhoWantThem) {
  Observer observer;
  const auto wants = listen(observer, {Points});
  const auto does_not = listen(observer, {Reports, Spans});
  observer.emit("loss", 2.5, 7);
  ASSERT_THAT(wants->names, ElementsAre("loss"));
  EXPECT_EQ(wants->points[0].value, 2.5);
  EXPECT_EQ(wants->points[0].step, 7);
  EXPECT_NEAR(wants->points[0].time, unix_seconds(), 60);
  EXPECT_THAT(does_not->names, IsEmpty());
}

TEST(Observer, ListensFromTheFirstSinkToTheLast) {
  Observer observer;
  EXPECT_FALSE(observer.listens(Points));
  EXPECT_FALSE(process_listeners.any(Points));
  const auto a = listen(observer, {Points});
  const auto b = listen(observer, {Points});
  observer.remove(*a);
  observer.remove(*a); // is gone already
  EXPECT_TRUE(observer.listens(Points));
  EXPECT_FALSE(observer.listens(Spans));
  EXPECT_TRUE(process_listeners.any(Points));
  observer.remove(*b);
  EXPECT_FALSE(observer.listens(Points));
  EXPECT_FALSE(process_listeners.any(Points));
}

TEST(Observer, TakesItsSinksOutOfTheProcessCount) {
  {
    Observer observer;
    listen(observer, {Spans});
    EXPECT_TRUE(process_listeners.any(Spans));
  }
  EXPECT_FALSE(process_listeners.any(Spans));
}

TEST(Observer, KeepsCountersAndGaugesWhileSomebodyListens) {
  Observer observer;
  observer.count("tokens", 5);
  EXPECT_THAT(observer.values(), IsEmpty());
  const auto sink = listen(observer, {Reports});
  observer.count("tokens", 5);
  observer.count("tokens");
  observer.gauge("lr", 0.1);
  observer.gauge("lr", 0.2);
  EXPECT_THAT(
      observer.values(), ElementsAre(Pair("lr", 0.2), Pair("tokens", 6)));
}

class FailingSink : public RecordingSink {
 public:
  FailingSink() : RecordingSink({Points}) {}
  void on_point(const Point&) override {
    ++calls;
    throw SystemError("disk full");
  }
  int calls = 0;
};

TEST(Observer, GoesOnWithoutASinkThatThrows) {
  Observer observer;
  const auto bad = std::make_shared<FailingSink>();
  observer.add(bad);
  const auto good = listen(observer, {Points});
  observer.emit("a", 1, 1);
  observer.emit("b", 1, 1);
  EXPECT_EQ(bad->calls, 1);
  EXPECT_THAT(good->names, ElementsAre("a", "b"));
}

TEST(Observer, IsForManyThreads) {
  Observer observer;
  const auto sink = listen(observer, {Points, Reports});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int step = 0; step < 1000; ++step) {
        observer.emit("loss", 1, step);
        observer.count("steps");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(sink->points.size(), 4000);
  EXPECT_THAT(observer.values(), ElementsAre(Pair("steps", 4000)));
}

TEST(Span, MeasuresItsScope) {
  Observer observer;
  const auto sink = listen(observer, {Spans});
  const std::int64_t before = unix_ns();
  {
    const Span outer(observer, "step");
    const Span inner(observer, "forward");
  }
  const std::int64_t after = unix_ns();
  ASSERT_THAT(sink->names, ElementsAre("forward", "step"));
  const SpanEvent& inner = sink->stretches[0];
  const SpanEvent& outer = sink->stretches[1];
  EXPECT_LE(before, outer.begin_ns);
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_LE(inner.begin_ns, inner.end_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_LE(outer.end_ns, after);
  EXPECT_EQ(outer.thread, inner.thread);
}

TEST(Span, OfAWaitIsCountedForReports) {
  Observer observer;
  { const Span span(observer, "wait", Activity::Wait); }
  EXPECT_EQ(observer.take_waited(), 0);
  const auto sink = listen(observer, {Reports});
  { const Span span(observer, "compute"); }
  EXPECT_EQ(observer.take_waited(), 0);
  { const Span span(observer, "wait", Activity::Wait); }
  EXPECT_GT(observer.take_waited(), 0);
  EXPECT_EQ(observer.take_waited(), 0);
  EXPECT_THAT(sink->stretches, IsEmpty());
}

// A meter whose time the test moves.
struct Metered {
  Observer observer;
  double now = 100;
  int exchanges = 0;

  StepMeter meter(StepMeterOptions options = {}) {
    options.clock = [this] { return now; };
    return StepMeter(observer, std::move(options), [this](const auto& own) {
      ++exchanges;
      return std::vector<RankStats>{own};
    });
  }
};

TEST(StepMeter, ExchangesOnceWhenNobodyListens) {
  Metered metered;
  auto meter = metered.meter();
  EXPECT_FALSE(meter.active());
  EXPECT_FALSE(metered.observer.listens(Reports)); // waits cost nothing
  for (int step = 0; step < 1000; ++step) {
    meter.step({.loss = 1, .samples = 1});
  }
  meter.finish();
  EXPECT_EQ(metered.exchanges, 1);
}

TEST(StepMeter, ReportsAsOftenAsWished) {
  Metered metered;
  const auto sink = listen(metered.observer, {Reports}, 0.5);
  auto meter = metered.meter({.total_steps = 20});
  for (int step = 1; step <= 20; ++step) {
    metered.now += 0.125;
    meter.step({.loss = step, .samples = 8});
  }
  meter.finish();
  std::vector<std::int64_t> steps;
  for (const Report& report : sink->reports) {
    steps.push_back(report.step);
  }
  EXPECT_THAT(steps, ElementsAre(1, 5, 9, 13, 17, 20));
  EXPECT_EQ(metered.exchanges, 1 + 6);
  const Report& second = sink->reports[1];
  EXPECT_EQ(second.loss, (2 + 3 + 4 + 5) / 4.0);
  EXPECT_EQ(second.samples_per_second, 64);
  EXPECT_EQ(second.step_seconds, 0.125);
  EXPECT_NEAR(*second.eta_seconds, 15 * 0.125, 1e-9);
  EXPECT_FALSE(second.finished);
  EXPECT_TRUE(sink->reports.back().finished);
  EXPECT_THROW(meter.step(), InvalidArgument);
}

TEST(StepMeter, ReportsAtMultiplesOfSteps) {
  Metered metered;
  const auto sink = listen(metered.observer, {Reports});
  auto meter = metered.meter({.first_step = 25, .report_every_steps = 10});
  metered.observer.gauge("lr", 0.5);
  for (int step = 0; step < 20; ++step) {
    metered.now += 1;
    meter.step();
  }
  ASSERT_EQ(sink->reports.size(), 2);
  EXPECT_EQ(sink->reports[0].step, 30);
  EXPECT_EQ(sink->reports[0].loss, std::nullopt);
  EXPECT_THAT(sink->reports[0].values, ElementsAre(Pair("lr", 0.5)));
  EXPECT_EQ(sink->reports[1].step, 40);
}

TEST(StepMeter, LeavesOutTimeThatIsNoSteps) {
  Metered metered;
  const auto sink = listen(metered.observer, {Reports});
  auto meter = metered.meter({.report_every_steps = 2});
  metered.now += 1;
  meter.step();
  metered.now += 50; // a checkpoint
  meter.skip_time();
  metered.now += 1;
  meter.step();
  EXPECT_EQ(sink->reports.at(0).step_seconds, 1);
}

TEST(StepMeter, RefusesNegativeSteps) {
  Observer observer;
  EXPECT_THROW(
      StepMeter(observer, {.report_every_steps = -1}), InvalidArgument);
}

} // namespace
} // namespace argosy::observe
