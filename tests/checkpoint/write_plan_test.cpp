#include "argosy/checkpoint/write_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "argosy/checkpoint/boxes.h"
#include "tests/checkpoint/random_boxes.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using testing::refusal;
using Holdings = std::vector<std::vector<Holding>>;
using Infos = std::vector<TensorInfo>;

// Who holds each element of a tensor, as bits.
std::vector<unsigned> holders_of(
    const Infos& tensors, const Holdings& holdings, std::uint32_t tensor) {
  const Shape& shape = tensors[tensor].shape;
  std::vector<unsigned> masks(static_cast<std::size_t>(dtensor::numel(shape)));
  for (std::size_t rank = 0; rank < holdings.size(); ++rank) {
    for (const Holding& holding : holdings[rank]) {
      if (holding.tensor == tensor) {
        for (const std::int64_t e : elements(shape, holding.box)) {
          masks[static_cast<std::size_t>(e)] |= 1u << rank;
        }
      }
    }
  }
  return masks;
}

// The least bytes that the fullest rank can have: some ranks must write what
// nobody else holds.
double least_load(const Infos& tensors, const Holdings& holdings) {
  std::map<unsigned, double> bytes;
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    for (const unsigned mask : holders_of(tensors, holdings, t)) {
      bytes[mask] += static_cast<double>(element_bytes(tensors[t].dtype));
    }
  }
  double least = 0;
  for (unsigned ranks = 1; ranks < 1u << holdings.size(); ++ranks) {
    double only_here = 0;
    for (const auto& [mask, count] : bytes) {
      only_here += (mask & ~ranks) == 0 ? count : 0;
    }
    least = std::max(least, only_here / std::popcount(ranks));
  }
  return least;
}

void expect_each_element_once(
    const Infos& tensors, const Holdings& holdings, const WritePlan& plan) {
  ASSERT_EQ(plan.size(), holdings.size());
  std::vector<std::vector<int>> times;
  for (const TensorInfo& info : tensors) {
    times.emplace_back(dtensor::numel(info.shape), 0);
  }
  for (std::size_t rank = 0; rank < plan.size(); ++rank) {
    for (const PlannedWrite& write : plan[rank]) {
      const Holding& holding = holdings[rank].at(write.holding);
      ASSERT_EQ(holding.tensor, write.tensor);
      if (write.box.numel() > 0) {
        ASSERT_EQ(intersection(write.box, holding.box), write.box);
      }
      for (const std::int64_t e :
           elements(tensors[write.tensor].shape, write.box)) {
        ++times[write.tensor][static_cast<std::size_t>(e)];
      }
    }
  }
  for (const auto& each : times) {
    ASSERT_TRUE(std::ranges::all_of(each, [](int n) { return n == 1; }));
  }
}

struct Case {
  Infos tensors;
  Holdings holdings;
  double greatest_row = 0;
};

// Every tensor is partitioned once or twice, parts go to random sets of ranks,
// so that boxes may overlap without being equal.
Case random_case(RandomBoxes& random) {
  Case made;
  const std::int64_t world = random.number(1, 5);
  made.holdings.resize(static_cast<std::size_t>(world));
  const std::int64_t count = random.number(1, 6);
  for (std::uint32_t t = 0; t < count; ++t) {
    const auto dtype = random.number(0, 1) == 0 ? DType::kF32 : DType::kBF16;
    const Shape shape = random.shape(4, t % 3 == 0 ? 0 : 1, 6);
    made.tensors.push_back({str("t", t), dtype, shape});
    for (std::int64_t layer = random.number(1, 2); layer > 0; --layer) {
      for (const Box& box :
           random.partition(shape, static_cast<int>(random.number(0, 3)))) {
        const std::int64_t holders = random.number(1, (1 << world) - 1);
        for (std::int64_t rank = 0; rank < world; ++rank) {
          if ((holders >> rank & 1) != 0) {
            made.holdings[static_cast<std::size_t>(rank)].push_back({t, box});
          }
        }
      }
    }
    std::int64_t row = 1;
    for (std::size_t d = 1; d < shape.size(); ++d) {
      row *= shape[d];
    }
    made.greatest_row = std::max(
        made.greatest_row,
        static_cast<double>(row) * static_cast<double>(element_bytes(dtype)));
  }
  return made;
}

TEST(WritePlan, EachElementOnceAndBalanced) {
  RandomBoxes random(11);
  for (int i = 0; i < 1500; ++i) {
    const Case made = random_case(random);
    const WritePlan plan = plan_writes(made.tensors, made.holdings, 1);
    expect_each_element_once(made.tensors, made.holdings, plan);
    if (HasFatalFailure()) {
      return;
    }
    const double least = least_load(made.tensors, made.holdings);
    // A row for each set of ranks that share something.
    const double slack = made.greatest_row * (1 << (made.holdings.size() - 1));
    for (const auto& writes : plan) {
      const auto bytes = static_cast<double>(bytes_of(made.tensors, writes));
      ASSERT_LE(bytes, least + slack + 1) << str(plan);
    }
    ASSERT_EQ(plan_writes(made.tensors, made.holdings, 1), plan);
  }
}

TEST(WritePlan, ReplicasAreDealtOut) {
  const Infos tensors = {
      {"a", DType::kF32, {1000, 64}},
      {"b", DType::kF32, {7}},
      {"c", DType::kBF16, {1, 1, 300000}},
      {"d", DType::kF64, {}}};
  Holdings holdings(5);
  for (auto& held : holdings) {
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
      held.push_back({t, dtensor::whole(tensors[t].shape)});
    }
  }
  const WritePlan plan = plan_writes(tensors, holdings, 1024);
  expect_each_element_once(tensors, holdings, plan);
  const double share = (256000 + 28 + 600000 + 8) / 5.0;
  for (const auto& writes : plan) {
    EXPECT_NEAR(static_cast<double>(bytes_of(tensors, writes)), share, 1100);
    for (const PlannedWrite& write : writes) {
      const std::uint64_t bytes = bytes_of(tensors, {write});
      const bool is_whole =
          write.box == dtensor::whole(tensors[write.tensor].shape);
      EXPECT_TRUE(is_whole || bytes >= 1024) << write.box;
    }
  }
}

TEST(WritePlan, SmallPiecesAreNotCut) {
  const Infos tensors = {
      {"a", DType::kF32, {1000}}, {"b", DType::kF32, {1000}}};
  const Holding a{0, dtensor::whole({1000})};
  const Holding b{1, dtensor::whole({1000})};
  const WritePlan plan = plan_writes(tensors, {{a, b}, {a, b}});
  ASSERT_EQ(plan[0].size(), 1u);
  ASSERT_EQ(plan[1].size(), 1u);
  EXPECT_EQ(plan[0][0], (PlannedWrite{0, 0, a.box}));
  EXPECT_EQ(plan[1][0], (PlannedWrite{1, 1, b.box}));
}

TEST(WritePlan, RanksWithOwnShardsGetFewerReplicas) {
  const Infos tensors = {
      {"own", DType::kF32, {1 << 16}}, {"all", DType::kF32, {1 << 18}}};
  const Holding all{1, dtensor::whole({1 << 18})};
  const WritePlan plan = plan_writes(
      tensors, {{{0, dtensor::whole({1 << 16})}, all}, {all}, {all}}, 4096);
  const double share = (double{1 << 18} + double{1 << 20}) / 3;
  for (const auto& writes : plan) {
    EXPECT_NEAR(static_cast<double>(bytes_of(tensors, writes)), share, 8192);
  }
}

TEST(WritePlan, TheFirstHolderWritesWhatMayDiffer) {
  const Infos tensors = {{"mean", DType::kF32, {1 << 20}}};
  const Box box = dtensor::whole({1 << 20});
  const WritePlan plan = plan_writes(
      tensors, {{}, {{0, box, true}}, {{0, box, true}}, {{0, box, true}}});
  EXPECT_EQ(plan[1], (std::vector<PlannedWrite>{{0, 0, box}}));
  EXPECT_TRUE(plan[0].empty() && plan[2].empty() && plan[3].empty());
}

TEST(WritePlan, EmptyTensorsHaveOneEntry) {
  const Infos tensors = {
      {"none", DType::kF32, {0, 4}}, {"nobody", DType::kF32, {0}}};
  const Box box = dtensor::whole({0, 4});
  const WritePlan plan = plan_writes(tensors, {{}, {{0, box}}, {{0, box}}});
  EXPECT_EQ(plan[1], (std::vector<PlannedWrite>{{0, 0, box}}));
  EXPECT_TRUE(plan[0].empty() && plan[2].empty());
}

TEST(WritePlan, NamesWhatNobodyHolds) {
  const Infos tensors = {{"fc.w", DType::kF32, {4, 4}}};
  const std::string message = refusal<CheckpointError>([&] {
    (void)plan_writes(
        tensors, {{{0, {{0, 0}, {2, 4}}}}, {{0, {{2, 0}, {2, 3}}}}});
  });
  EXPECT_NE(message.find("fc.w F32 [4, 4]"), std::string::npos) << message;
  EXPECT_NE(message.find("[2:4, 3:4]"), std::string::npos) << message;
}

TEST(WritePlan, RefusesBoxesOutside) {
  const Infos tensors = {{"fc.w", DType::kF32, {4, 4}}};
  EXPECT_NE(
      refusal([&] {
        (void)plan_writes(tensors, {{{0, {{0, 0}, {5, 4}}}}});
      }).find("[0:5, 0:4]"),
      std::string::npos);
  EXPECT_NE(refusal([&] { (void)plan_writes(tensors, {{{1, {}}}}); }), "");
}

// 64 ranks: each tensor in 8 row shards (some of them ranges of elements), each
// of which 8 ranks hold.
Case large_case() {
  Case made;
  made.holdings.resize(64);
  for (std::uint32_t t = 0; t < 5000; ++t) {
    const Shape shape = {1027, 64};
    made.tensors.push_back({str("layer", t), DType::kF32, shape});
    for (std::int64_t rank = 0; rank < 64; ++rank) {
      const std::int64_t shard = rank % 8;
      if (t % 2 == 0) {
        Box box = dtensor::whole(shape);
        dtensor::cut(box, 0, 8, shard);
        made.holdings[static_cast<std::size_t>(rank)].push_back({t, box});
        continue;
      }
      const std::int64_t each = dtensor::numel(shape) / 8;
      const std::int64_t last = shard == 7 ? dtensor::numel(shape) % 8 : 0;
      for (const Box& box : boxes_of_range(shape, shard * each, each + last)) {
        made.holdings[static_cast<std::size_t>(rank)].push_back({t, box});
      }
    }
  }
  return made;
}

TEST(WritePlan, IsFastForManyRanks) {
  const Case made = large_case();
  const std::clock_t start = std::clock();
  const WritePlan plan = plan_writes(made.tensors, made.holdings);
  const double took =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("seconds", std::to_string(took));
  EXPECT_LT(took, 5); // 0.2 s on a quiet machine
  std::uint64_t most = 0;
  std::uint64_t total = 0;
  for (const auto& writes : plan) {
    most = std::max(most, bytes_of(made.tensors, writes));
    total += bytes_of(made.tensors, writes);
  }
  EXPECT_EQ(total, std::uint64_t{5000} * 1027 * 64 * 4);
  EXPECT_LT(most, total / 64 + (128 << 10));
}

} // namespace
} // namespace argosy::checkpoint
