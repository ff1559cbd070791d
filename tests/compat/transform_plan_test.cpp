// Plans of transformations, without files: each element once, few ranks.

#include "argosy/compat/transform_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "argosy/common/error.h"
#include "argosy/compat/hitting_set.h"
#include "tests/compat/strategy_oracle.h"

namespace argosy::compat {
namespace {

using dtensor::Box;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RandomStrategies;

JobLayout job_of(std::map<std::string, ParallelLayout> layouts) {
  ParallelStrategy strategy;
  strategy.layouts = std::move(layouts);
  return job_layout(strategy);
}

// The size of a smallest set, by trying all of them.
int smallest_size(const std::vector<std::vector<int>>& lists, int numbers) {
  int best = numbers;
  for (unsigned set = 0; set < 1u << numbers; ++set) {
    const bool hits = std::ranges::all_of(lists, [&](const auto& list) {
      return std::ranges::any_of(
          list, [&](int x) { return (set >> x & 1) != 0; });
    });
    best = hits ? std::min(best, std::popcount(set)) : best;
  }
  return best;
}

TEST(HittingSet, IsASmallestOne) {
  RandomStrategies random(3);
  for (int round = 0; round < 500; ++round) {
    const int numbers = random.number(1, 10);
    std::vector<std::vector<int>> lists(
        static_cast<std::size_t>(random.number(0, 8)));
    for (auto& list : lists) {
      std::set<int> members;
      for (int i = random.number(1, 4); i > 0; --i) {
        members.insert(random.number(0, numbers - 1));
      }
      list.assign(members.begin(), members.end());
    }
    const auto set = hitting_set(lists, 0);
    for (const auto& list : lists) {
      EXPECT_TRUE(std::ranges::any_of(
          list, [&](int x) { return std::ranges::count(set, x) == 1; }));
    }
    EXPECT_EQ(
        static_cast<int>(set.size()),
        lists.empty() ? 0 : smallest_size(lists, numbers));
  }
}

TEST(HittingSet, PrefersTheOwnNumber) {
  EXPECT_THAT(hitting_set({{0, 1, 2, 3}}, 2), ElementsAre(2));
  EXPECT_THAT(hitting_set({{0, 4}, {0, 4, 5}}, 3), ElementsAre(4));
}

TEST(TransformPlan, EachElementComesOnce) {
  RandomStrategies random(4);
  for (int round = 0; round < 200; ++round) {
    const auto shape = random.shape();
    const JobLayout from =
        job_of({{"w", random.layout(random.number(1, 12), shape)}});
    const JobLayout to =
        job_of({{"w", random.layout(random.number(1, 12), shape)}});
    const TransformPlanner planner(from, to);
    for (int rank = 0; rank < to.num_ranks(); ++rank) {
      const RankPlan plan = planner.plan(rank);
      ASSERT_EQ(plan.parameters.size(), 1u);
      const ParameterPlan& w = plan.parameters[0];
      EXPECT_EQ(w.target, box_of(to.parameters.at("w")[0].layout, shape, rank));
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < w.parts.size(); ++i) {
        const SourcePart& part = w.parts[i];
        EXPECT_EQ(
            part.held,
            box_of(from.parameters.at("w")[0].layout, shape, part.rank));
        EXPECT_EQ(intersection(part.held, w.target), part.part);
        sum += part.part.numel();
        for (std::size_t j = 0; j < i; ++j) {
          EXPECT_EQ(intersection(part.part, w.parts[j].part).numel(), 0);
        }
      }
      EXPECT_EQ(sum, w.target.numel()) << plan;
    }
  }
}

TEST(TransformPlan, ReadsFromAsFewRanksAsPossible) {
  RandomStrategies random(5);
  for (int round = 0; round < 60; ++round) {
    const int devices = random.number(2, 10);
    const int targets = random.number(1, 8);
    std::map<std::string, ParallelLayout> src;
    std::map<std::string, ParallelLayout> dst;
    for (const char* name : {"a", "b", "c"}) {
      const auto shape = random.shape();
      src[name] = random.layout(devices, shape);
      dst[name] = random.layout(targets, shape);
    }
    const TransformPlanner planner(job_of(src), job_of(dst));
    for (int rank = 0; rank < targets; ++rank) {
      const RankPlan plan = planner.plan(rank);
      std::vector<std::vector<int>> lists;
      for (const ParameterPlan& parameter : plan.parameters) {
        for (const HeldBox& held :
             held_boxes(planner.from(), parameter.name, parameter.shape)) {
          if (intersection(held.box, parameter.target).numel() > 0) {
            lists.push_back(held.ranks);
          }
        }
      }
      EXPECT_EQ(
          static_cast<int>(plan.source_ranks().size()),
          lists.empty() ? 0 : smallest_size(lists, devices));
    }
  }
}

TEST(TransformPlan, SameLayoutReadsItsOwnFile) {
  RandomStrategies random(6);
  for (int round = 0; round < 50; ++round) {
    const JobLayout job = job_of({{"w", random.layout(8, {4, 9})}});
    const TransformPlanner planner(job, job);
    for (int rank = 0; rank < 8; ++rank) {
      const auto ranks = planner.plan(rank).source_ranks();
      if (!ranks.empty()) {
        EXPECT_THAT(ranks, ElementsAre(rank));
      }
    }
  }
}

TEST(TransformPlan, ReportsWhatOneSideLacks) {
  const auto w = ParallelLayout::of({2}, {0}, dtensor::Shape{4});
  const TransformPlanner planner(
      job_of({{"a", w}, {"b", w}}), job_of({{"b", w}, {"c", w}}));
  EXPECT_EQ(planner.report(), (TransformReport{{"a"}, {"c"}}));
  EXPECT_EQ(planner.plan(0).parameters.size(), 1u);
}

TEST(TransformPlan, ShapesMustMatch) {
  const auto planner = [](const ParallelLayout& a, const ParallelLayout& b) {
    return TransformPlanner(job_of({{"fc.w", a}}), job_of({{"fc.w", b}}));
  };
  try {
    planner(
        ParallelLayout::of({2}, {0}, dtensor::Shape{4}),
        ParallelLayout::of({2}, {0}, dtensor::Shape{6}));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("fc.w"));
  }
  EXPECT_THROW(
      planner(ParallelLayout::of({2}, {0}), ParallelLayout::of({2}, {0, -1})),
      InvalidArgument);
}

TEST(TransformPlan, ReplicasReplaceLostFiles) {
  // Ranks 0 and 2 hold the same rows, so do 1 and 3.
  const JobLayout from =
      job_of({{"w", ParallelLayout::of({2, 2}, {0}, dtensor::Shape{4})}});
  const JobLayout to = unsharded_like(from);
  const auto lost = [&](std::set<int> ranks) {
    return TransformPlanner(
        from,
        to,
        {},
        {[ranks](int rank, const auto&) { return !ranks.contains(rank); }, {}});
  };
  EXPECT_THAT(lost({0, 3}).plan(0).source_ranks(), ElementsAre(1, 2));
  try {
    lost({1, 3}).plan(0);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("w [2:4]"));
    EXPECT_THAT(error.what(), HasSubstr("rank 1 or rank 3"));
  }
}

TEST(JobLayout, OfDifferentLayoutsInStagesTheFirstCounts) {
  const auto rows = ParallelLayout::of({2}, {0}, dtensor::Shape{4});
  const auto whole = ParallelLayout::of({2}, {-1}, dtensor::Shape{4});
  EXPECT_EQ(
      held_boxes(job_of({{"0-a", rows}, {"1-a", whole}}), "a", {4}),
      (std::vector<HeldBox>{{Box{{0}, {2}}, {0}}, {Box{{2}, {2}}, {1}}}));
}

TEST(JobLayout, ChecksStagesAndDevices) {
  const auto two = ParallelLayout::of({2}, {0}, dtensor::Shape{4});
  const auto three = ParallelLayout::of({3}, {0}, dtensor::Shape{4});
  EXPECT_THROW(job_of({{"a", two}, {"b", three}}), InvalidArgument);
  EXPECT_THROW(job_of({{"0-a", two}, {"2-b", two}}), InvalidArgument);
  const JobLayout job = job_of({{"0-a", two}, {"1-b", two}, {"1-a", two}});
  EXPECT_EQ(job.num_ranks(), 4);
  EXPECT_EQ(layout_at(job, "b", 1), nullptr);
  EXPECT_NE(layout_at(job, "b", 2), nullptr);
  EXPECT_EQ(
      held_boxes(job, "a", {4}),
      (std::vector<HeldBox>{{Box{{0}, {2}}, {0, 2}}, {Box{{2}, {2}}, {1, 3}}}));
}

} // namespace
} // namespace argosy::compat
