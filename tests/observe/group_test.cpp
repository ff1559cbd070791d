// Observing several ranks together.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include <array>
#include <map>
#include <set>
#include <thread>

#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/comm/traffic.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/observe/group_meter.h"
#include "argosy/observe/session.h"
#include "argosy/observe/span.h"
#include "argosy/observe/trace_file.h"
#include "argosy/observe/world_observer.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "tests/observe/recording_sink.h"

namespace argosy::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Json = nlohmann::json;

std::uint64_t num_exchanges() {
  return get_group(0)->traffic().total().calls;
}

TEST(WorldObserver, IsEachRanksOwn) {
  emit("before any world", 1, 1); // does nothing
  testing::run_ranks(3, [](World& world) {
    const auto sink = std::make_shared<RecordingSink>(
        std::vector{Interest::Points, Interest::Spans});
    observer_of(world)->add(sink);
    barrier(); // all listen
    emit("loss", world.rank(), 5);
    { const Span span("forward"); }
    count("tokens", 2);
    gauge("lr", world.rank());
    // A thread of no rank has no observer.
    std::thread([] {
      emit("nobody", 1, 1);
      const Span span("nobody");
    }).join();
    barrier(); // all have observed
    EXPECT_THAT(sink->names, ElementsAre("loss", "forward"));
    EXPECT_EQ(sink->points.at(0).value, world.rank());
    EXPECT_EQ(current_observer()->values().at(0).second, world.rank());
    EXPECT_EQ(current_observer()->values().at(1).second, 2);
  });
  EXPECT_FALSE(process_listeners.any(Interest::Points));
}

TEST(GroupMeter, ReportsAllRanksAsOne) {
  testing::run_ranks(4, [](World& world) {
    const auto sink =
        std::make_shared<RecordingSink>(std::vector{Interest::Reports});
    if (world.rank() == 0) {
      observer_of(world)->add(sink);
    }
    double now = 0; // each rank's own, so that the numbers are exact
    auto meter = make_step_meter(
        {.total_steps = 8, .report_every_steps = 4, .clock = [&] {
           return now;
         }});
    EXPECT_TRUE(meter->active()); // on all ranks
    for (int step = 0; step < 8; ++step) {
      now += 0.5;
      const double waited = world.rank() == 2 ? 0.0 : 0.25;
      observer_of(world)->span(
          {.name = "wait",
           .activity = Activity::Wait,
           .end_ns = static_cast<std::int64_t>(waited * 1e9)});
      meter->step({.loss = world.rank(), .samples = 8.0 * (world.rank() + 1)});
    }
    EXPECT_EQ(num_exchanges(), 1 + 2);
    meter->finish();
    EXPECT_EQ(num_exchanges(), 1 + 3);
    const Report& last = meter->last_report();
    EXPECT_EQ(last.step, 8);
    EXPECT_EQ(last.loss, (0 * 1 + 1 * 2 + 2 * 3 + 3 * 4) / 10.0);
    EXPECT_EQ(last.samples_per_second, 2 * 8 * 10);
    EXPECT_EQ(last.step_seconds, 0.5);
    EXPECT_THAT(last.rank_step_seconds, ElementsAre(0.25, 0.25, 0.5, 0.25));
    EXPECT_EQ(last.slowest_rank, 2);
    EXPECT_EQ(last.slowest_ratio, 2);
    EXPECT_TRUE(last.finished);
    EXPECT_THAT(sink->reports, SizeIs(world.rank() == 0 ? 3 : 0));
  });
}

TEST(GroupMeter, CommunicatesNotAtAllWhenNobodyListens) {
  testing::run_ranks(2, [](World&) {
    auto meter = make_step_meter();
    EXPECT_FALSE(meter->active());
    const auto before = num_exchanges();
    for (int step = 0; step < 100; ++step) {
      meter->step({.loss = 1, .samples = 1});
    }
    meter->finish();
    EXPECT_EQ(num_exchanges(), before);
  });
}

TEST(GroupMeter, CommunicatesNotAtAllForOwnNumbers) {
  testing::run_ranks(2, [](World& world) {
    const auto sink =
        std::make_shared<RecordingSink>(std::vector{Interest::Reports});
    observer_of(world)->add(sink);
    auto meter = make_step_meter({.report_every_steps = 1}, nullptr, false);
    for (int step = 0; step <= world.rank(); ++step) {
      meter->step({.loss = world.rank(), .samples = 1});
    }
    meter->finish();
    EXPECT_EQ(num_exchanges(), 0);
    EXPECT_EQ(meter->last_report().loss, world.rank());
    EXPECT_THAT(meter->last_report().rank_step_seconds, SizeIs(1));
  });
}

TEST(GroupMeter, WaitsAtTheEndForRanksWithMoreSteps) {
  testing::run_ranks(3, [](World& world) {
    if (world.rank() == 1) {
      observer_of(world)->add(
          std::make_shared<RecordingSink>(std::vector{Interest::Reports}));
    }
    auto meter = make_step_meter({.report_every_steps = 2});
    for (int step = 0; step < 3 + 4 * world.rank(); ++step) {
      meter->step({.loss = world.rank(), .samples = 1});
    }
    meter->finish();
    EXPECT_EQ(meter->last_report().step, 3 + 4 * 2);
    EXPECT_EQ(meter->last_report().loss, 2);
    EXPECT_TRUE(meter->last_report().finished);
  });
}

// A meter, and reports as often as they are due by the clock: the ranks agree
// on the steps although their clocks differ.
TEST(GroupMeter, AgreesOnWhenToReport) {
  testing::run_process_ranks(3, [](World& world) {
    const auto sink = std::make_shared<RecordingSink>(
        std::vector{Interest::Reports}, 0.001 * (world.rank() + 1));
    observer_of(world)->add(sink);
    auto meter = make_step_meter();
    for (int step = 0; step < 2000; ++step) {
      meter->step({.loss = 1, .samples = 1});
    }
    meter->finish();
    std::vector<std::int64_t> steps;
    for (const Report& report : sink->reports) {
      steps.push_back(report.step);
    }
    auto size = torch::tensor(static_cast<std::int64_t>(steps.size()));
    const auto own_size = size.clone();
    broadcast(size, 0);
    ASSERT_TRUE(torch::equal(size, own_size));
    auto first = torch::tensor(steps);
    broadcast(first, 0);
    EXPECT_TRUE(torch::equal(first, torch::tensor(steps)));
    EXPECT_EQ(steps.back(), 2000);
  });
}

std::vector<Json> events_with(const Json& file, const char* phase) {
  std::vector<Json> found;
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("ph") == phase) {
      found.push_back(event);
    }
  }
  return found;
}

// That event of phase X which encloses the end of an arrow.
const Json& enclosing(const std::vector<Json>& spans, const Json& end) {
  const Json* found = nullptr;
  for (const Json& span : spans) {
    const double into =
        end.at("ts").get<double>() - span.at("ts").get<double>();
    if (span.at("pid") == end.at("pid") && span.at("tid") == end.at("tid") &&
        into >= 0 && into <= span.at("dur").get<double>()) {
      found = &span;
    }
  }
  if (found == nullptr) {
    throw Error("an arrow ends nowhere: " + end.dump());
  }
  return *found;
}

// The arrows of the file, each checked: from rank, to rank, sequence number.
std::vector<std::array<int, 3>> checked_arrows(const Json& file) {
  const auto spans = events_with(file, "X");
  const auto starts = events_with(file, "s");
  const auto ends = events_with(file, "f");
  EXPECT_EQ(starts.size(), ends.size());
  std::vector<std::array<int, 3>> arrows;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(starts[i].at("id"), ends[i].at("id"));
    const Json& from = enclosing(spans, starts[i]).at("args");
    const Json& to = enclosing(spans, ends[i]).at("args");
    EXPECT_EQ(from.at("Seq"), to.at("Seq"));
    arrows.push_back({from.at("rank"), to.at("rank"), from.at("Seq")});
  }
  return arrows;
}

// What each rank did, by name, and the arrows between them.
void expect_steps(const Json& file, int num_ranks, int num_steps) {
  std::map<std::pair<int, std::string>, int> counts;
  for (const Json& event : events_with(file, "X")) {
    ++counts[{event.at("pid").get<int>(), event.at("name")}];
  }
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (const char* name : {"step", "forward", "all_reduce"}) {
      EXPECT_EQ((counts[{rank, name}]), num_steps) << rank << " " << name;
    }
  }
  std::map<int, std::set<int>> joined; // by sequence number
  for (const auto& [from, to, sequence] : checked_arrows(file)) {
    EXPECT_NE(from, to);
    joined[sequence].insert({from, to});
  }
  EXPECT_THAT(joined, SizeIs(num_steps));
  for (const auto& [sequence, ranks] : joined) {
    EXPECT_THAT(ranks, SizeIs(num_ranks));
  }
}

TEST(TraceFile, ShowsAllProcessesInOneFile) {
  constexpr int kRanks = 3;
  constexpr int kSteps = 4;
  testing::run_process_ranks(kRanks, [](World& world) {
    const TempDir dir; // rank 0 writes
    const auto path = dir.path() / "trace.json";
    barrier(); // before the trace begins
    Session session({.progress = false, .trace = path});
    auto sum = torch::ones(1000);
    for (int step = 0; step < kSteps; ++step) {
      const Span span("step");
      { const Span forward("forward"); }
      if (step % 2 == 0) {
        all_reduce(sum);
      } else {
        all_reduce(sum, ReduceOp::SUM, nullptr, false)->wait();
      }
    }
    session.finish();
    if (world.rank() == 0) {
      expect_steps(Json::parse(*read_file(path)), kRanks, kSteps);
    }
  });
}

TEST(TraceFile, ThatCannotBeWrittenThrowsWhereItIs) {
  const TempDir dir;
  write_file(dir.path() / "file", "");
  const auto path = dir.path() / "file" / "trace.json";
  testing::run_ranks(2, [&](World& world) {
    const RankTrace own{.rank = world.rank()};
    if (world.rank() == 0) {
      EXPECT_THROW(write_trace(path, own), SystemError);
    } else {
      write_trace(path, own);
    }
    barrier(); // the group is still of use
  });
}

TEST(Session, WritesWhatWasAskedFor) {
  const TempDir dir;
  testing::run_ranks(2, [&](World& world) {
    Session session(
        {.progress = false,
         .json_lines = dir.path() / "rank{rank}.jsonl",
         .tensor_board = dir.path() / "board",
         .trace = dir.path() / "new" / "trace.json"});
    auto meter = make_step_meter({.total_steps = 3, .report_every_steps = 1});
    for (int step = 0; step < 3; ++step) {
      const Span span("step");
      meter->step({.loss = world.rank(), .samples = 4});
    }
    meter->finish();
    session.finish();
    emit("after the end", 1, 1);
  });
  for (const char* name : {"rank0.jsonl", "rank1.jsonl"}) {
    const auto lines = split(*read_file(dir.path() / name), '\n');
    ASSERT_THAT(lines, SizeIs(4 + 1)) << name;
    EXPECT_EQ(Json::parse(lines[0]).at("loss"), 0.5);
  }
  EXPECT_EQ(
      std::distance(
          std::filesystem::directory_iterator(dir.path() / "board"), {}),
      1);
  const Json trace = Json::parse(*read_file(dir.path() / "new" / "trace.json"));
  std::size_t steps = 0;
  for (const Json& event : events_with(trace, "X")) {
    steps += event.at("name") == "step" ? 1 : 0;
  }
  EXPECT_EQ(steps, 6);
}

double train(int step) {
  return step;
}

// The program in docs/observe.md, which is the text between the marks.
void run_example() {
  // [example]
  namespace observe = argosy::observe;
  observe::Session session(
      {.json_lines = "run/metrics.jsonl",
       .tensor_board = "run",
       .trace = "run/trace.json"});
  auto meter = observe::make_step_meter({.total_steps = 100});
  for (int step = 0; step < 100; ++step) {
    double loss = 0;
    {
      const observe::Span span("forward and backward");
      loss = train(step);
    }
    observe::gauge("lr", 0.1);
    meter->step({.loss = loss, .samples = 32});
  }
  meter->finish();
  session.finish();
  // [/example]
}

std::string example_in_docs() {
  const std::filesystem::path root = ARGOSY_SOURCE_DIR;
  const std::string docs = *read_file(root / "docs" / "observe.md");
  // Behind the includes, which stand at the top of a file.
  const auto begin = docs.find("namespace observe", docs.find("```cpp\n"));
  return docs.substr(begin, docs.find("```", begin) - begin);
}

std::string example_here() {
  const std::filesystem::path root = ARGOSY_SOURCE_DIR;
  std::string text;
  bool inside = false;
  for (const std::string& line :
       split(*read_file(root / "tests/observe/group_test.cpp"), '\n')) {
    if (line == "  // [example]" || line == "  // [/example]") {
      inside = !inside;
    } else if (inside) {
      text += line.substr(2) + "\n";
    }
  }
  return text;
}

TEST(Session, RunsTheExampleOfTheDocs) {
  EXPECT_EQ(example_here(), example_in_docs());
  testing::run_process_ranks(2, [](World& world) {
    const TempDir dir; // rank 0 writes
    std::filesystem::current_path(dir.path());
    run_example();
    if (world.rank() == 0) {
      const auto lines = split(*read_file("run/metrics.jsonl"), '\n');
      const Json last = Json::parse(lines.at(lines.size() - 2));
      EXPECT_EQ(last.at("step"), 100);
      EXPECT_EQ(last.at("lr"), 0.1);
      EXPECT_TRUE(std::filesystem::exists("run/trace.json"));
    }
  });
}

TEST(Session, PutsTheRankIntoNames) {
  EXPECT_EQ(with_rank("m.{rank}.jsonl", 12), "m.12.jsonl");
  EXPECT_EQ(with_rank("m.jsonl", 12), "m.jsonl");
}

} // namespace
} // namespace argosy::observe
