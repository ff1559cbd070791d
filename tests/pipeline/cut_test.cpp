#include "argosy/pipeline/cut/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "tests/support/refusal.h"

namespace argosy::pipeline {
namespace {

using argosy::testing::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = Value::Kind;

// Graphs by hand. Each value has a memory of its own unless told otherwise.
class Builder {
 public:
  int input(std::int64_t bytes = 8) {
    const int value = add(Kind::kInput, bytes);
    graph.inputs.push_back(value);
    return value;
  }
  int state(const std::string& name, std::int64_t bytes = 8) {
    const int value = add(Kind::kState, bytes);
    graph.values.back().names = {name};
    return value;
  }
  int op(std::vector<int> uses, std::int64_t bytes = 8) {
    graph.nodes.push_back({.op = "op", .uses = std::move(uses)});
    return add_result(bytes);
  }
  int view(int of) {
    graph.nodes.push_back({.op = "view", .uses = {of}});
    const int value = add_result(graph.value(of).bytes);
    graph.values.back().memory = graph.value(of).memory;
    return value;
  }
  void write(int to, std::vector<int> uses) {
    uses.push_back(to);
    graph.nodes.push_back(
        {.op = "write", .uses = std::move(uses), .writes = {to}});
  }
  // x * weight + bias, as a Linear does it.
  int layer(int x, const std::string& name, std::int64_t bytes = 8) {
    const int weight = state(name + ".weight");
    const int turned = view(weight);
    const int product = op({x, turned}, bytes);
    return op({product, state(name + ".bias")}, bytes);
  }
  Graph finish(std::vector<int> outputs) {
    graph.outputs = std::move(outputs);
    return graph;
  }

  Graph graph;

 private:
  int add(Kind kind, std::int64_t bytes) {
    const int value = static_cast<int>(graph.values.size());
    graph.values.push_back({.kind = kind, .bytes = bytes, .memory = value});
    return value;
  }
  int add_result(std::int64_t bytes) {
    const int value = add(Kind::kResult, bytes);
    graph.nodes.back().makes = {value};
    return value;
  }
};

SplitSpec after(const std::string& layer) {
  return {{layer, SplitPoint::END}};
}
SplitSpec before(const std::string& layer) {
  return {{layer, SplitPoint::BEGINNING}};
}

TEST(Cut, WithoutPointsIsTheWhole) {
  Builder b;
  const int x = b.input();
  const int y = b.layer(x, "a");
  const Cuts cuts = cut(b.finish({y}), {});
  ASSERT_EQ(cuts.parts.size(), 1u);
  EXPECT_THAT(cuts.parts[0].nodes(), ElementsAre(0, 1, 2));
  EXPECT_THAT(cuts.parts[0].receives, ElementsAre(x));
  EXPECT_THAT(cuts.parts[0].sends, ElementsAre(y));
}

TEST(Cut, EndTakesTheActivationAlongAndBeginningLeavesIt) {
  Builder b;
  const int y = b.layer(b.input(), "a"); // nodes 0 to 2
  const int z = b.op({y});               // 3: the activation
  const Graph graph = b.finish({b.layer(z, "b")});
  EXPECT_EQ(cut(graph, after("a")).parts[0].end, 4);
  EXPECT_THAT(cut(graph, after("a")).parts[0].sends, ElementsAre(z));
  EXPECT_EQ(cut(graph, before("b")).parts[0].end, 3);
  EXPECT_THAT(cut(graph, before("b")).parts[1].receives, ElementsAre(y));
}

TEST(Cut, IsWhereTheFewestBytesCross) {
  Builder b;
  const int y = b.layer(b.input(), "a", 100);
  const int small = b.op({y}, 10);
  const int large = b.op({small}, 1000);
  const int z = b.op({large}, 100);
  const Graph graph = b.finish({b.layer(z, "b")});
  for (const auto& points : {after("a"), before("b")}) {
    EXPECT_THAT(cut(graph, points).parts[0].sends, ElementsAre(small));
  }
  const auto bytes = crossing_bytes(graph);
  EXPECT_EQ(bytes[3], 100);
  EXPECT_EQ(bytes[4], 10);
  EXPECT_EQ(bytes[5], 1000);
}

TEST(Cut, NeverSendsAViewOfAWeight) {
  Builder b;
  const int x = b.input(8);
  const int weight = b.state("a.weight", 8);
  const int turned = b.view(weight);
  const int wide = b.op({x, turned}, 1000); // larger than what it is made of
  const Graph graph = b.finish({b.layer(wide, "b")});
  EXPECT_THAT(cut(graph, after("a")).parts[0].sends, ElementsAre(wide));
}

TEST(Cut, WhatIsUsedLaterTravelsThroughAllPartsBetween) {
  Builder b;
  const int x = b.input();
  const int late = b.input();
  const int y = b.layer(x, "a");
  const int z = b.layer(y, "b");
  const int u = b.layer(z, "c");
  const int v = b.layer(b.op({u, y, late}), "d");
  const Cuts cuts = cut(
      b.finish({v, y}),
      {{"a", SplitPoint::END}, {"b", SplitPoint::END}, {"c", SplitPoint::END}});
  EXPECT_THAT(cuts.parts[0].receives, ElementsAre(x, late));
  EXPECT_THAT(cuts.parts[1].receives, ElementsAre(late, y));
  EXPECT_THAT(cuts.parts[1].sends, ElementsAre(late, y, z));
  EXPECT_THAT(cuts.parts[2].receives, ElementsAre(late, y, z));
  EXPECT_EQ(cuts.parts[2].sends, cuts.parts[3].receives);
  EXPECT_THAT(cuts.parts[3].sends, ElementsAre(v, y));
  EXPECT_THAT(cuts.shared, IsEmpty());
}

TEST(Cut, WeightsThatAreUsedAgainCountWhereTheyAreUsedFirst) {
  Builder b;
  const int words = b.state("words.weight", 1000);
  const int y = b.layer(b.op({b.input(), words}), "block");
  const int turned = b.view(words);
  const Graph graph = b.finish({b.op({y, turned}, 100)});
  const Cuts cuts =
      cut(graph, {{"words", SplitPoint::END}, {"block", SplitPoint::END}});
  EXPECT_EQ(cuts.parts[0].end, 1);
  EXPECT_THAT(cuts.parts[1].sends, ElementsAre(y));
  ASSERT_EQ(cuts.shared.size(), 1u);
  EXPECT_THAT(cuts.shared.at("words.weight"), ElementsAre(0, 2));
}

TEST(Cut, RepeatsWhatIsTheSameInEveryRun) {
  Builder b;
  const int x = b.input();
  const int ones = b.op({}, 64);               // 0
  b.write(ones, {});                           // 1
  const int mask = b.op({ones}, 64);           // 2
  const int y = b.op({b.layer(x, "a"), mask}); // 3 to 6
  const Graph graph = b.finish({b.op({b.layer(y, "b"), mask})});
  const Cuts cuts = cut(graph, after("a"));
  EXPECT_THAT(cuts.parts[1].receives, ElementsAre(y));
  EXPECT_THAT(cuts.parts[1].repeated, ElementsAre(0, 1, 2));
}

TEST(Cut, DoesNotRepeatWhatIsRandom) {
  Builder b;
  const int x = b.input();
  const int noise = b.op({}, 64);
  b.graph.nodes.back().is_random = true;
  const int y = b.layer(x, "a");
  const Graph graph = b.finish({b.op({b.layer(y, "b"), noise})});
  const Cuts cuts = cut(graph, after("a"));
  EXPECT_THAT(cuts.parts[1].receives, ElementsAre(noise, y));
  EXPECT_THAT(cuts.parts[1].repeated, IsEmpty());
}

TEST(Cut, RefusesLayersThatItCannotFind) {
  Builder b;
  b.state("unused.weight");
  const Graph graph =
      b.finish({b.layer(b.layer(b.input(), "encoder.0"), "encoder.1")});
  EXPECT_THAT(
      refusal([&] { cut(graph, after("encodr.0")); }),
      HasSubstr("is it encoder.0?"));
  EXPECT_THAT(
      refusal([&] { cut(graph, after("unused")); }),
      HasSubstr("uses no parameter"));
  EXPECT_THAT(
      refusal([&] { cut(graph, before("encoder")); }),
      HasSubstr("nothing comes before encoder"));
  EXPECT_THAT(
      refusal([&] { cut(graph, after("encoder.1")); }),
      HasSubstr("nothing comes after encoder.1"));
  EXPECT_THAT(
      refusal([&] {
        cut(graph,
            {{"encoder.0", SplitPoint::END},
             {"encoder.1", SplitPoint::BEGINNING}});
      }),
      HasSubstr("does not come after the one at encoder.0"));
}

TEST(Cut, RefusesViewsOfAMemoryThatIsWrittenLater) {
  Builder b;
  const int y = b.layer(b.input(), "a");
  const int seen = b.view(y);
  const int more = b.op({y, b.state("a.more")});
  const int z = b.layer(more, "b");
  b.write(seen, {z});
  const Graph graph = b.finish({b.op({y, z})});
  EXPECT_THAT(
      refusal([&] { cut(graph, before("b")); }), HasSubstr("several views"));
}

TEST(Cut, TakesAnotherPlaceWhereViewsWouldBeTorn) {
  Builder b;
  const int y = b.layer(b.input(), "a"); // 0 to 2
  const int seen = b.view(y);            // 3
  b.write(seen, {});                     // 4: not between 3 and this
  const Graph graph = b.finish({b.layer(y, "b", 8)});
  EXPECT_NE(cut(graph, after("a")).parts[0].end, 4);
}

TEST(Cut, RefusesABufferThatIsWrittenAndUsedInSeveralParts) {
  Builder b;
  const int count = b.state("a.count");
  const int y = b.layer(b.input(), "a");
  b.write(count, {y});
  const Graph graph = b.finish({b.op({b.layer(y, "b"), count})});
  EXPECT_THAT(
      refusal([&] { cut(graph, before("b")); }),
      HasSubstr("a.count is written in forward and used in parts 0 and 1"));
}

TEST(CutEvenly, MakesTheHeaviestPartAsLightAsItCanBe) {
  Builder b;
  int x = b.input();
  for (int i = 0; i < 9; ++i) {
    x = b.op({x});
  }
  const Graph graph = b.finish({x});
  const auto ends = [&](int parts, const std::vector<double>& weights) {
    std::vector<int> all;
    for (const Part& part : cut_evenly(graph, parts, weights).parts) {
      all.push_back(part.end);
    }
    return all;
  };
  EXPECT_THAT(ends(3, {1, 1, 1, 1, 1, 1, 1, 1, 1}), ElementsAre(3, 6, 9));
  EXPECT_THAT(ends(2, {8, 1, 1, 1, 1, 1, 1, 1, 1}), ElementsAre(1, 9));
  EXPECT_THAT(ends(1, {1, 1, 1, 1, 1, 1, 1, 1, 1}), ElementsAre(9));
  EXPECT_EQ(ends(9, {1, 1, 1, 1, 1, 1, 1, 1, 1}).size(), 9u);
  EXPECT_THROW(ends(10, {1, 1, 1, 1, 1, 1, 1, 1, 1}), InvalidArgument);
}

TEST(CutEvenly, SendsLessWhereItCostsAlmostNothing) {
  Builder b;
  const int wide = b.op({b.input()}, 1000);
  const int narrow = b.op({wide}, 1);
  const Graph graph = b.finish({b.op({b.op({narrow}, 1000)}, 1000)});
  EXPECT_EQ(cut_evenly(graph, 2, {100, 2, 98, 1}).parts[0].end, 2);
  EXPECT_EQ(cut_evenly(graph, 2, {100, 50, 98, 1}).parts[0].end, 2);
  EXPECT_EQ(cut_evenly(graph, 2, {100, 30, 100, 40}).parts[0].end, 2);
}

TEST(CutEvenly, WeighsStatesWhereTheyAreUsedFirst) {
  Builder b;
  const int words = b.state("words.weight", 1000);
  const int y = b.op({b.input(), words});
  const int z = b.op({y, b.state("a.weight", 10)});
  const Graph graph = b.finish({b.op({z, words})});
  EXPECT_THAT(state_weights(graph), ElementsAre(1000, 10, 0));
}

// In another mode, forward has ops more, or fewer.
TEST(CutAlike, KeepsTheStatesOfEachPart) {
  const auto make = [](bool counts) {
    Builder b;
    const int y = b.layer(b.input(), "a");
    const int count = b.state("a.count");
    if (counts) {
      b.write(count, {});
    }
    return b.finish({b.layer(b.layer(b.op({y}), "b"), "c")});
  };
  const Graph training = make(true);
  const Cuts cuts = cut_evenly(training, 2, state_weights(training));
  const Graph evaluating = make(false);
  const Cuts alike = cut_alike(evaluating, training, cuts);
  ASSERT_EQ(alike.parts.size(), 2u);
  EXPECT_EQ(alike.parts[0].end, 4); // before b, of one node fewer
  EXPECT_EQ(alike.parts[1].states.size(), 4u);
  EXPECT_EQ(cuts.parts[1].states.size(), 4u);
  EXPECT_EQ(cut_alike(training, training, cuts), cuts);
}

} // namespace
} // namespace argosy::pipeline
