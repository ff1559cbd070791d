// Traces: which arrows and lanes, and the file as JSON.

#include "argosy/observe/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <regex>

#include "argosy/comm/flight/record.h"
#include "argosy/observe/chrome_trace.h"
#include "argosy/observe/flight_operations.h"

namespace argosy::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::json;

TraceOperation all_reduce(
    std::uint64_t sequence, std::int64_t begin_ns, std::int64_t end_ns) {
  return {
      .op = "all_reduce",
      .sequence = sequence,
      .bytes = 64,
      .begin_ns = begin_ns,
      .end_ns = end_ns};
}

RankTrace rank_with(int rank, std::vector<TraceOperation> operations) {
  return {.rank = rank, .operations = std::move(operations)};
}

TEST(Arrows, GoFromTheLastToComeToTheOthers) {
  const auto arrows = arrows_between(
      {rank_with(0, {all_reduce(0, 10, 50), all_reduce(1, 90, 99)}),
       rank_with(1, {all_reduce(0, 40, 50)}),
       rank_with(2, {all_reduce(1, 70, 99), all_reduce(0, 20, 50)})});
  EXPECT_EQ(
      arrows, (std::vector<Arrow>{{1, 0, 0, 0}, {1, 0, 2, 1}, {0, 1, 2, 0}}));
}

TEST(Arrows, StayWithinTheGroup) {
  TraceOperation other = all_reduce(0, 10, 20);
  other.group = 1;
  EXPECT_THAT(
      arrows_between(
          {rank_with(0, {all_reduce(0, 10, 20)}), rank_with(1, {other})}),
      IsEmpty());
}

TEST(Arrows, GoFromTheRankThatGives) {
  TraceOperation first{.op = "broadcast", .from = 4, .begin_ns = 1};
  TraceOperation late = first;
  late.begin_ns = 100;
  EXPECT_EQ(
      arrows_between({rank_with(3, {late}), rank_with(4, {first})}),
      (std::vector<Arrow>{{1, 0, 0, 0}}));
  // The receiver of a message comes late, and gives nothing.
  TraceOperation send{.op = "send", .from = 0, .to = 1, .begin_ns = 1};
  TraceOperation recv{.op = "recv", .from = 0, .to = 1, .begin_ns = 9};
  TraceOperation back{.op = "send", .from = 1, .to = 0, .begin_ns = 5};
  EXPECT_EQ(
      arrows_between({rank_with(0, {send}), rank_with(1, {back, recv})}),
      (std::vector<Arrow>{{0, 0, 1, 1}}));
}

TEST(Lanes, SeparateWhatOverlaps) {
  EXPECT_THAT(
      lanes_of(
          {all_reduce(0, 0, 10),
           all_reduce(1, 10, 20),
           all_reduce(2, 5, 15),
           all_reduce(3, 12, 30),
           all_reduce(4, 16, 17)}),
      ElementsAre(0, 0, 1, 2, 1));
  EXPECT_THAT(lanes_of({}), IsEmpty());
}

std::vector<Json> events_with(const Json& file, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("ph") == phase) {
      found.push_back(event);
    }
  }
  return found;
}

std::vector<RankTrace> two_ranks() {
  constexpr std::int64_t kStart = 1'700'000'000'000'000'000;
  std::vector<RankTrace> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(
        {.rank = rank,
         .host = "node",
         .spans =
             {{.name = "for\"ward",
               .begin_ns = kStart,
               .end_ns = kStart + 1'500},
              {.name = "wait",
               .activity = Activity::Wait,
               .thread = 1,
               .begin_ns = kStart + 2'000,
               .end_ns = kStart + 3'001}},
         .operations =
             {all_reduce(5, kStart + 1'600 + rank, kStart + 2'900),
              all_reduce(6, kStart + 1'700, kStart + 2'000)},
         .dropped = 1});
  }
  return ranks;
}

TEST(TraceJson, HasSpansAndOperationsInLanes) {
  const Json file = Json::parse(trace_json(two_ranks()));
  EXPECT_EQ(file.at("baseTimeNanoseconds"), 1'700'000'000'000'000'000);
  EXPECT_EQ(file.at("droppedEvents"), 2);
  EXPECT_EQ(file.at("distributedInfo").at("world_size"), 2);
  const auto spans = events_with(file, "X");
  ASSERT_EQ(spans.size(), 8);
  EXPECT_EQ(
      spans[0],
      Json(
          {{"ph", "X"},
           {"name", "for\"ward"},
           {"cat", "compute"},
           {"pid", 0},
           {"tid", 0},
           {"ts", 0.0},
           {"dur", 1.5}}));
  EXPECT_EQ(spans[1].at("cat"), "wait");
  EXPECT_EQ(spans[1].at("tid"), 1);
  EXPECT_EQ(spans[1].at("dur"), 1.001);
  EXPECT_EQ(
      spans[6],
      Json(
          {{"ph", "X"},
           {"name", "all_reduce"},
           {"cat", "communication"},
           {"pid", 1},
           {"tid", 1000},
           {"ts", 1.601},
           {"dur", 1.299},
           {"args",
            {{"Collective name", "all_reduce"},
             {"Process Group Name", "0"},
             {"Seq", 5},
             {"bytes", 64},
             {"rank", 1}}}}));
  EXPECT_EQ(spans[7].at("tid"), 1001); // under way at the same time
}

TEST(TraceJson, SaysWhatAnOperationIsFor) {
  TraceOperation labelled = all_reduce(0, 10, 50);
  labelled.label = "validation \"loss\"";
  const Json file = Json::parse(trace_json({rank_with(0, {labelled})}));
  EXPECT_EQ(
      events_with(file, "X")[0].at("args").at("for"), "validation \"loss\"");
}

TEST(TraceJson, NamesRanksAndLanes) {
  const Json file = Json::parse(trace_json(two_ranks()));
  std::vector<std::string> names;
  for (const Json& event : events_with(file, "M")) {
    if (event.at("pid") == 1 && event.at("args").contains("name")) {
      names.push_back(event.at("args").at("name"));
    }
  }
  EXPECT_THAT(
      names,
      ElementsAre(
          "rank 1 (node)",
          "compute",
          "compute 2",
          "communication",
          "communication 2"));
}

TEST(TraceJson, JoinsRanksByArrows) {
  const Json file = Json::parse(trace_json(two_ranks()));
  const auto starts = events_with(file, "s");
  const auto ends = events_with(file, "f");
  ASSERT_EQ(starts.size(), 2);
  ASSERT_EQ(ends.size(), 2);
  for (std::size_t i = 0; i < 2; ++i) {
    for (const char* field : {"id", "cat", "name"}) {
      EXPECT_EQ(starts[i].at(field), ends[i].at(field));
    }
    EXPECT_EQ(ends[i].at("bp"), "e");
  }
  EXPECT_NE(starts[0].at("id"), starts[1].at("id"));
  EXPECT_EQ(starts[0].at("pid"), 1); // came 1 ns later
  EXPECT_EQ(starts[0].at("ts"), 1.601);
  EXPECT_EQ(ends[0].at("pid"), 0);
  EXPECT_EQ(ends[0].at("ts"), 2.899); // inside
}

TEST(TraceJson, TellsHtaItsRank) {
  std::smatch match;
  const std::string text = trace_json(two_ranks());
  ASSERT_TRUE(
      std::regex_search(text, match, std::regex(R"xx("rank":\s+(\d+))xx")));
  EXPECT_EQ(match[1], "0");
}

TEST(TraceJson, IsJsonWhateverTheNames) {
  RankTrace trace;
  trace.spans.push_back({.name = "\xff\n\t\\", .begin_ns = 5, .end_ns = 6});
  EXPECT_TRUE(Json::accept(trace_json({trace})));
  EXPECT_TRUE(Json::accept(trace_json({})));
}

TEST(ChromeTrace, KeepsSpansByThreadAndAsksItsSource) {
  int asked = 0;
  ChromeTrace::Options options;
  options.source = [&] {
    ++asked;
    return std::vector<TraceOperation>{all_reduce(asked, 1, 2)};
  };
  ChromeTrace trace(3, options);
  const std::int64_t second = 1'000'000'000;
  trace.on_span({"a", Activity::Compute, second, second + 1, 77});
  trace.on_span({"b", Activity::Wait, second, second + 2, 88});
  trace.on_span({"c", Activity::Compute, 2 * second, 2 * second + 1, 77});
  EXPECT_EQ(asked, 2); // once in a period
  const RankTrace kept = trace.take();
  EXPECT_EQ(kept.rank, 3);
  EXPECT_EQ(
      kept.spans,
      (std::vector<TraceSpan>{
          {"a", Activity::Compute, 0, second, second + 1},
          {"b", Activity::Wait, 1, second, second + 2},
          {"c", Activity::Compute, 0, 2 * second, 2 * second + 1}}));
  EXPECT_EQ(kept.operations.size(), 3);
  EXPECT_THAT(trace.take().spans, IsEmpty());
}

comm::flight::Operation recorded(
    std::uint64_t number, comm::OpKind kind, comm::flight::State state) {
  comm::flight::Operation operation;
  operation.number = number;
  operation.group = 2;
  operation.sequence = number + 100;
  operation.call.kind = kind;
  operation.call.root = 5;
  operation.call.bytes = 64;
  operation.state = state;
  operation.started_us = 10;
  operation.ended_us = state >= comm::flight::State::Completed ? 30 : 0;
  return operation;
}

TEST(FlightOperations, SayWhoGives) {
  using comm::OpKind;
  using comm::flight::State;
  const auto of = [](OpKind kind, State state = State::Completed) {
    return trace_operation(recorded(1, kind, state), 7);
  };
  TraceOperation expected{
      .op = "all_reduce",
      .group = 2,
      .sequence = 101,
      .bytes = 64,
      .begin_ns = 10'000,
      .end_ns = 30'000};
  EXPECT_EQ(of(OpKind::AllReduce), expected);
  auto labelled = recorded(1, OpKind::AllReduce, State::Completed);
  labelled.call.label = OpLabel("validation loss");
  EXPECT_EQ(trace_operation(labelled, 7).label, "validation loss");
  EXPECT_EQ(of(OpKind::AllReduce, State::Failed).op, "all_reduce (failed)");
  EXPECT_EQ(of(OpKind::Broadcast).from, 5);
  EXPECT_EQ(of(OpKind::Send).from, 7);
  EXPECT_EQ(of(OpKind::Send).to, 5);
  EXPECT_EQ(of(OpKind::Recv).from, 5);
  EXPECT_EQ(of(OpKind::Recv).to, 7);
}

TEST(FlightOperations, AreTakenOnceWhenTheyHaveEnded) {
  using comm::flight::State;
  const auto record = [](const std::vector<State>& states,
                         std::uint64_t first) {
    comm::flight::Record result;
    for (std::size_t i = 0; i < states.size(); ++i) {
      result.operations.push_back(
          recorded(first + i, comm::OpKind::AllReduce, states[i]));
    }
    return result;
  };
  NewOperations fresh(record({State::Completed, State::Started}, 0));
  const auto sequences = [&](const comm::flight::Record& from) {
    std::vector<std::uint64_t> found;
    for (const TraceOperation& operation : fresh.in(from)) {
      found.push_back(operation.sequence);
    }
    return found;
  };
  // 2 ends before 1, which began earlier.
  EXPECT_THAT(
      sequences(
          record({State::Completed, State::Started, State::Completed}, 0)),
      ElementsAre(102));
  EXPECT_THAT(
      sequences(record({State::Completed, State::Completed, State::Issued}, 1)),
      ElementsAre(101));
  EXPECT_THAT(
      sequences(record({State::Completed, State::Failed}, 2)),
      ElementsAre(103));
}

TEST(ChromeTrace, CountsWhatItHasNoRoomFor) {
  ChromeTrace::Options options;
  options.max_events = 2;
  ChromeTrace trace(0, options);
  for (int i = 0; i < 5; ++i) {
    trace.on_span({"a", Activity::Compute, 1, 2, 0});
  }
  const RankTrace kept = trace.take();
  EXPECT_EQ(kept.spans.size(), 2);
  EXPECT_EQ(kept.dropped, 3);
}

} // namespace
} // namespace argosy::observe
