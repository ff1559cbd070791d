// Strategy files: what MindSpore writes is read, and the other way round.

#include "argosy/compat/strategy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/compat/strategy_oracle.h"

namespace argosy {
namespace {

using dtensor::Shape;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

// As MindSpore writes it.
const char* const kFile = R"({
  "current_stage": 0,
  "parallel_layout_item": {
    "fc1.weight": {
      "dev_matrix": [2, 4, 1],
      "field": 0,
      "opt_weight_shard_size": -1,
      "opt_weight_shard_step": 4,
      "tensor_map": [1, 0],
      "tensor_shape": [8, 4]
    },
    "table": {
      "dev_matrix": [2, 4],
      "field": 0,
      "indices_offset": [0, 10],
      "opt_weight_shard_size": 0,
      "opt_weight_shard_step": 0,
      "param_split_shape": [10, 20],
      "tensor_map": [1, -1],
      "tensor_shape": [30, 6]
    }
  },
  "parallel_strategy_item": {
    "MatMul-op1": {"parallel_strategy": [[2, 4], [4, 1]], "stage": 0}
  }
})";

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(StrategyFile, ReadsWhatMindSporeWrites) {
  const auto strategy = compat::parse_strategy(kFile, "a.json");
  EXPECT_EQ(
      strategy.layouts.at("fc1.weight"),
      with_optimizer_shards(
          ParallelLayout::of({2, 4, 1}, {1, 0}, Shape{8, 4})));
  auto table = ParallelLayout::of({2, 4}, {1, -1}, Shape{30, 6});
  table.param_split_shape = {10, 20};
  table.indices_offset = {0, 10};
  EXPECT_EQ(strategy.layouts.at("table"), table);
  EXPECT_THAT(strategy.nodes, HasSubstr("MatMul-op1"));
  EXPECT_EQ(
      compat::parse_strategy(compat::to_json(strategy), "b.json"), strategy);
}

TEST(StrategyFile, EveryStrategySurvivesAFile) {
  const TempDir folder;
  testing::RandomStrategies random(2);
  ParallelStrategy strategy;
  strategy.current_stage = 3;
  for (int i = 0; i < 100; ++i) {
    strategy.layouts[str("p", i)] = random.layout(12, random.shape());
  }
  const auto file = folder.path() / "strategy.json";
  save_strategy(file, strategy);
  EXPECT_EQ(build_searched_strategy(file), strategy);
}

TEST(StrategyFile, ComesFromPlacementsOfDTensors) {
  const auto first = ProcessMesh({2, 2}, {0, 1, 2, 3}, {"dp", "mp"});
  const auto second = ProcessMesh({2, 2}, {4, 5, 6, 7}, {"dp", "mp"});
  const Placements columns{Replicate(), Shard(1)};
  EXPECT_THAT(
      strategy_of({{"a", {4, 4}, DistAttr(second, columns)}}),
      ::testing::AllOf(
          ::testing::Field(&ParallelStrategy::current_stage, 1),
          ::testing::Field(
              &ParallelStrategy::layouts, UnorderedElementsAre(Key("a")))));
  const auto both = strategy_of(
      {{"a", {4, 4}, DistAttr(first, columns)},
       {"b-1", {4, 6}, DistAttr(second, columns)}});
  EXPECT_EQ(
      both.layouts.at("1-b-1"),
      ParallelLayout::of({2, 2}, {-1, 0}, Shape{4, 6}));
  EXPECT_TRUE(both.layouts.contains("0-a"));
}

ParallelStrategy of_stage(int stage, const std::string& name) {
  ParallelStrategy strategy;
  strategy.nodes = str(R"({"node)", stage, R"(": {"stage": )", stage, "}}");
  strategy.layouts[name] = ParallelLayout::of({2}, {0}, Shape{4});
  return strategy;
}

TEST(StrategyFile, StagesBecomeOneFile) {
  const TempDir folder;
  save_strategy(folder.path() / "rank_0.json", of_stage(0, "a"));
  save_strategy(folder.path() / "rank_1.json", of_stage(0, "a"));
  save_strategy(folder.path() / "rank_2.json", of_stage(1, "b-c"));
  const auto merged = folder.path() / "merged.json";
  for (int round = 0; round < 2; ++round) { // the second finds the first
    merge_pipeline_strategies(folder.path(), merged);
    const auto strategy = build_searched_strategy(merged);
    EXPECT_THAT(
        strategy.layouts, UnorderedElementsAre(Key("0-a"), Key("1-b-c")));
    EXPECT_TRUE(compat::has_all_stages(strategy));
    EXPECT_THAT(strategy.nodes, HasSubstr("node1"));
  }
}

TEST(StrategyFile, MissingStagesAreNamed) {
  const TempDir folder;
  save_strategy(folder.path() / "s0.json", of_stage(0, "a"));
  save_strategy(folder.path() / "s3.json", of_stage(3, "b"));
  EXPECT_THAT(
      message_of([&] {
        merge_pipeline_strategies(folder.path(), folder.path() / "merged.json");
      }),
      HasSubstr("stages 1, 2"));
  const TempDir empty;
  EXPECT_THAT(
      message_of(
          [&] { merge_pipeline_strategies(empty.path(), "merged.json"); }),
      HasSubstr("*.json"));
}

TEST(StrategyFile, ErrorsNameTheFileAndTheParameter) {
  const TempDir folder;
  const auto file = folder.path() / "s.json";
  const auto message = [&] {
    return message_of([&] { build_searched_strategy(file); });
  };
  EXPECT_THAT(message(), HasSubstr("no such strategy file"));
  write_file(file, "");
  EXPECT_THAT(message(), HasSubstr("empty"));
  write_file(file, "\x0a\x05tests");
  EXPECT_THAT(message(), HasSubstr("protobuf"));
  write_file(file, "{}");
  EXPECT_THAT(message(), HasSubstr("parallel_layout_item"));
  write_file(file, R"({"parallel_layout_item": {"w": {"dev_matrix": [2]}}})");
  EXPECT_THAT(
      message(), ::testing::AllOf(HasSubstr("tensor_map"), HasSubstr(": w")));
  write_file(
      file,
      R"({"parallel_layout_item": {"w": {"dev_matrix": ["2"], "tensor_map": []}}})");
  EXPECT_THAT(message(), HasSubstr("dev_matrix"));
  write_file(
      file,
      R"({"parallel_layout_item": {"w": {"dev_matrix": [2], "tensor_map": [4]}}})");
  EXPECT_THAT(message(), HasSubstr("axis 4"));
}

TEST(StrategyFile, NamesMayHaveDashes) {
  EXPECT_EQ(
      compat::split_stage("12-a-b"), (std::pair<int, std::string>(12, "a-b")));
  EXPECT_EQ(compat::split_stage("a-b").first, -1);
  EXPECT_EQ(compat::split_stage("-b").first, -1);
}

} // namespace
} // namespace argosy
