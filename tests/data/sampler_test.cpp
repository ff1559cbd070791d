#include "argosy/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/data/shuffle.h"
#include "argosy/world/data_ranks.h"
#include "argosy/world/notes.h"
#include "tests/store/expect.h"
#include "tests/support/command.h"

namespace argosy::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using Indices = std::vector<std::int64_t>;

std::vector<Indices> indices_of_batches(const std::vector<Batch>& batches) {
  std::vector<Indices> all;
  for (const Batch& batch : batches) {
    all.push_back(batch.indices);
  }
  return all;
}

std::vector<Indices> take_epoch(DistributedBatchSampler& sampler) {
  std::vector<Indices> all;
  while (const auto batch = sampler.next()) {
    all.push_back(batch->indices);
  }
  return all;
}

// What Paddle does, list by list: pad, cut full global batches into pieces,
// divide what is left, then cut the rank's samples into batches.
std::vector<Indices> paddle_batches(Indices order, const SamplerOptions& o) {
  const std::size_t ranks = o.replicas();
  const std::size_t batch = o.batch_size;
  const std::size_t rank = o.replica();
  for (std::size_t i = 0; order.size() % ranks != 0; ++i) {
    order.push_back(order[i]);
  }
  const std::size_t left = order.size() % (batch * ranks);
  const std::size_t full = order.size() - left;
  Indices mine;
  for (std::size_t at = rank * batch; at < full; at += batch * ranks) {
    mine.insert(mine.end(), order.begin() + at, order.begin() + at + batch);
  }
  const auto rest = order.begin() + full + rank * (left / ranks);
  mine.insert(mine.end(), rest, rest + left / ranks);
  std::vector<Indices> batches;
  for (std::size_t at = 0; at < mine.size(); at += batch) {
    const std::size_t end = std::min(mine.size(), at + batch);
    if (end - at == batch || !o.drop_last) {
      batches.emplace_back(mine.begin() + at, mine.begin() + end);
    }
  }
  return batches;
}

TEST(Shuffle, IsTheSameOnEveryPlatform) {
  EXPECT_THAT(
      shuffled_indices(10, 42, 3), ElementsAre(8, 1, 5, 9, 3, 7, 2, 4, 0, 6));
  for (const std::string arguments : {"0 0 0", "1 7 0", "1000 123456789 17"}) {
    std::istringstream in(arguments);
    std::int64_t size = 0;
    std::uint64_t seed = 0;
    std::int64_t epoch = 0;
    in >> size >> seed >> epoch;
    std::vector<std::string> expected;
    for (const auto index : shuffled_indices(size, seed, epoch)) {
      expected.push_back(std::to_string(index));
    }
    const auto oracle = testing::run_command(
        "python3 " ARGOSY_SOURCE_DIR "/tests/data/shuffle_oracle.py " +
        arguments);
    EXPECT_EQ(oracle.output, join(expected, " ") + "\n");
  }
}

TEST(Shuffle, DiffersByEpochAndSeed) {
  const auto first = shuffled_indices(100, 0, 0);
  EXPECT_NE(first, shuffled_indices(100, 0, 1));
  EXPECT_NE(first, shuffled_indices(100, 1, 0));
  EXPECT_NE(shuffled_indices(100, 1, 0), shuffled_indices(100, 0, 1));
}

TEST(Shuffle, FavoursNoPlace) {
  std::map<std::int64_t, int> firsts;
  for (int epoch = 0; epoch < 6000; ++epoch) {
    ++firsts[shuffled_indices(6, 5, epoch)[0]];
  }
  for (const auto& [index, count] : firsts) {
    EXPECT_NEAR(count, 1000, 150) << index; // five standard deviations
  }
}

TEST(BatchPlan, EqualsPaddles) {
  for (int size = 1; size <= 40; ++size) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      for (int batch_size = 1; batch_size <= 4; ++batch_size) {
        for (int bits = 0; bits < 4 * ranks; ++bits) {
          const SamplerOptions options{
              .batch_size = batch_size,
              .num_replicas = ranks,
              .rank = bits / 4,
              .shuffle = bits % 2 != 0,
              .drop_last = bits / 2 % 2 != 0,
              .seed = 9};
          Indices order(size);
          std::iota(order.begin(), order.end(), 0);
          if (options.shuffle) {
            order = shuffled_indices(size, 9, 2);
          }
          const auto plan = plan_batches(size, options, 2);
          ASSERT_EQ(indices_of_batches(plan), paddle_batches(order, options))
              << size << " samples, " << ranks << " ranks";
          const DistributedBatchSampler sampler(size, options);
          ASSERT_EQ(sampler.size(), static_cast<std::int64_t>(plan.size()));
        }
      }
    }
  }
}

TEST(BatchPlan, PadsADatasetSmallerThanThePadding) {
  const SamplerOptions options{.batch_size = 3, .num_replicas = 8, .rank = 7};
  EXPECT_THAT(
      indices_of_batches(plan_batches(3, options, 0)),
      ElementsAre(ElementsAre(1)));
}

TEST(BatchPlan, OfNoSamplesIsEmpty) {
  EXPECT_TRUE(plan_batches(0, {.batch_size = 2}, 0).empty());
  DistributedBatchSampler sampler(0, {.batch_size = 2});
  EXPECT_EQ(sampler.size(), 0);
  EXPECT_FALSE(sampler.next());
}

TEST(BatchPlan, WithoutPaddingEverySampleComesOnce) {
  for (int size = 0; size <= 30; ++size) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      Indices all;
      std::int64_t most = 0;
      std::int64_t least = size;
      for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t mine = 0;
        for (const auto& batch : plan_batches(
                 size,
                 {.batch_size = 3,
                 .num_replicas = ranks,
                 .rank = rank,
                 .shuffle = true,
                 .pad = false},
                 0)) {
          ASSERT_FALSE(batch.indices.empty());
          mine += static_cast<std::int64_t>(batch.indices.size());
          all.insert(all.end(), batch.indices.begin(), batch.indices.end());
        }
        most = std::max(most, mine);
        least = std::min(least, mine);
      }
      std::sort(all.begin(), all.end());
      Indices expected(size);
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected);
      EXPECT_LE(most - least, 1);
    }
  }
}

TEST(BatchPlan, DroppingWithoutPaddingRepeatsNothing) {
  // With padding 11 samples make 12, and 12 are three full batches.
  SamplerOptions options{
      .batch_size = 2, .num_replicas = 2, .rank = 1, .drop_last = true};
  EXPECT_THAT(
      indices_of_batches(plan_batches(11, options, 0)),
      ElementsAre(ElementsAre(2, 3), ElementsAre(6, 7), ElementsAre(10, 0)));
  options.pad = false;
  EXPECT_THAT(
      indices_of_batches(plan_batches(11, options, 0)),
      ElementsAre(ElementsAre(2, 3), ElementsAre(6, 7)));
}

TEST(BatchPlan, Prints) {
  std::ostringstream out;
  out << plan_batches(5, {.batch_size = 2}, 1)[1];
  EXPECT_EQ(out.str(), "epoch 1 to 4: [2 3]");
}

TEST(Sampler, GoesOnToTheNextEpoch) {
  const SamplerOptions options{
      .batch_size = 4, .num_replicas = 2, .rank = 1, .shuffle = true};
  DistributedBatchSampler sampler(21, options);
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(sampler.epoch(), epoch);
    EXPECT_EQ(
        take_epoch(sampler),
        indices_of_batches(plan_batches(21, options, epoch)));
  }
  sampler.next();
  sampler.set_epoch(1);
  EXPECT_EQ(
      take_epoch(sampler), indices_of_batches(plan_batches(21, options, 1)));
}

TEST(Sampler, TakesTheSizeOfADataset) {
  const std::vector<int> dataset(7);
  EXPECT_EQ(DistributedBatchSampler(dataset, {.batch_size = 2}).size(), 4);
}

TEST(Sampler, TakesTheRanksThatTheOptionsLeaveOut) {
  const auto ranks = std::make_shared<DataRanksOfWorld>(DataRanks{2, 3});
  bind_data_ranks(ranks);
  const auto of = [](const SamplerOptions& options) {
    const auto filled = DistributedBatchSampler(6, options).options();
    return DataRanks{*filled.rank, *filled.num_replicas};
  };
  EXPECT_EQ(of({}), (DataRanks{2, 3}));
  EXPECT_EQ(of({.rank = 1}), (DataRanks{1, 3}));
  EXPECT_EQ(of({.num_replicas = 3}), (DataRanks{2, 3}));
  EXPECT_EQ(of({.num_replicas = 1}), (DataRanks{0, 1}));
  EXPECT_EQ(of({.num_replicas = 5, .rank = 4}), (DataRanks{4, 5}));
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { of({.num_replicas = 2}); }),
      HasSubstr(
          "num_replicas 2 without rank, but this world has 3 data ranks"));
  bind_data_ranks(nullptr, 4);
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { of({}); }),
      HasSubstr("the job has 4 ranks"));
  bind_data_ranks(nullptr);
  EXPECT_EQ(of({}), (DataRanks{0, 1}));
}

TEST(Sampler, GoesOnFromAnyStateToTheExactSample) {
  for (const bool drop_last : {false, true}) {
    for (const bool pad : {false, true}) {
      const SamplerOptions options{
          .batch_size = 3,
          .num_replicas = 2,
          .rank = 1,
          .shuffle = true,
          .drop_last = drop_last,
          .pad = pad,
          .seed = 4};
      DistributedBatchSampler whole(25, options);
      const auto first = take_epoch(whole);
      const auto second = take_epoch(whole);
      for (std::size_t done = 0; done <= first.size(); ++done) {
        DistributedBatchSampler before(25, options);
        for (std::size_t i = 0; i < done; ++i) {
          before.next();
        }
        const std::string saved = before.state().to_json();
        DistributedBatchSampler after(25, options);
        after.load_state(SamplerState::from_json(saved));
        std::vector<Indices> rest;
        if (after.epoch() == 0) {
          rest = take_epoch(after);
        }
        EXPECT_EQ(rest, std::vector(first.begin() + done, first.end()));
        EXPECT_EQ(take_epoch(after), second);
      }
    }
  }
}

TEST(Sampler, GoesOnWithAnotherNumberOfRanks) {
  const SamplerOptions two{
      .batch_size = 3, .num_replicas = 2, .shuffle = true, .pad = false};
  Indices seen;
  SamplerState state;
  for (int rank = 0; rank < 2; ++rank) {
    SamplerOptions options = two;
    options.rank = rank;
    DistributedBatchSampler sampler(50, options);
    for (int step = 0; step < 4; ++step) {
      const auto batch = sampler.next();
      seen.insert(seen.end(), batch->indices.begin(), batch->indices.end());
    }
    state = sampler.state();
  }
  EXPECT_EQ(state.position, 24);
  for (int rank = 0; rank < 3; ++rank) {
    SamplerOptions options = two;
    options.num_replicas = 3;
    options.batch_size = 5;
    options.rank = rank;
    DistributedBatchSampler sampler(50, options);
    sampler.load_state(state);
    for (const auto& batch : take_epoch(sampler)) {
      seen.insert(seen.end(), batch.begin(), batch.end());
    }
  }
  std::sort(seen.begin(), seen.end());
  Indices expected(50);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

// With uneven ends a rank may have no part in the last step; before and after
// that step all ranks agree where they are.
TEST(Sampler, RanksWithUnevenEndsAgreeOnTheState) {
  std::vector<DistributedBatchSampler> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back(
        7,
        SamplerOptions{
            .batch_size = 2, .num_replicas = 3, .rank = rank, .pad = false});
    ranks.back().next();
    EXPECT_EQ(ranks.back().state().position, 6) << rank;
  }
  EXPECT_THAT(ranks[0].next()->indices, ElementsAre(6));
  EXPECT_FALSE(ranks[1].next());
  EXPECT_EQ(ranks[0].state(), ranks[1].state());
  EXPECT_EQ(ranks[0].state().epoch, 1);
}

TEST(Sampler, RefusesWhatCannotBe) {
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [] { plan_batches(4, {.batch_size = 0}, 0); }),
      HasSubstr("batch_size 0"));
  EXPECT_THAT(
      message_of<InvalidArgument>([] { plan_batches(-1, {}, 0); }),
      HasSubstr("size -1"));
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [] { plan_batches(4, {.num_replicas = 2, .rank = 2}, 0); }),
      HasSubstr("rank 2, expected 0 to 1"));
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [] { plan_batches(4, {.num_replicas = 0}, 0); }),
      HasSubstr("num_replicas 0"));
}

// The notes of a rank, in a map that all ranks of the test share.
class SharedNotes final : public Notes {
 public:
  using Texts = std::map<std::string, std::string>;

  SharedNotes(int rank, int size, std::shared_ptr<Texts> texts)
      : Notes(rank, size), texts_(std::move(texts)) {}

  std::string claim(const std::string& key, const std::string& text) override {
    return texts_->emplace(key, text).first->second;
  }
  std::optional<std::string> find(const std::string& key) override {
    const auto found = texts_->find(key);
    return found == texts_->end() ? std::nullopt : std::optional(found->second);
  }

 private:
  const std::shared_ptr<Texts> texts_;
};

// The ranks of a world, of which this thread is now one and then another.
class NotedRanks {
 public:
  explicit NotedRanks(int size) {
    const auto texts = std::make_shared<SharedNotes::Texts>();
    for (int rank = 0; rank < size; ++rank) {
      notes_.push_back(std::make_shared<SharedNotes>(rank, size, texts));
    }
  }
  ~NotedRanks() { bind_notes(nullptr); }

  DistributedBatchSampler make(int rank, SamplerOptions options) {
    bind_notes(notes_[rank]);
    options.rank = rank % options.num_replicas.value();
    return DistributedBatchSampler(100, options);
  }

  // In another line of the program.
  DistributedBatchSampler make_elsewhere(int rank, SamplerOptions options) {
    bind_notes(notes_[rank]);
    options.rank = rank;
    return DistributedBatchSampler(100, options);
  }

 private:
  std::vector<std::shared_ptr<Notes>> notes_;
};

TEST(SamplerCheck, TellsRanksWhoseOptionsDiffer) {
  NotedRanks ranks(4);
  auto first = ranks.make(0, {.batch_size = 8, .num_replicas = 4});
  auto same = ranks.make(2, {.batch_size = 8, .num_replicas = 4});
  EXPECT_TRUE(same.next());
  const std::string expected =
      "sampler check: rank 0 has batch_size 8, rank 1 has batch_size 16; rank "
      "0 has pad 1, rank 1 has pad 0;";
  EXPECT_THAT(
      message_of<InvalidArgument>([&] {
        ranks.make(1, {.batch_size = 16, .num_replicas = 4, .pad = false});
      }),
      HasSubstr(expected));
  // Who came first hears of it, too.
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { first.next(); }), HasSubstr(expected));
}

TEST(SamplerCheck, ComparesNumbersOfReplicasWhoeverComesFirst) {
  const SamplerOptions right{.num_replicas = 4};
  const SamplerOptions wrong{.num_replicas = 2};
  NotedRanks ranks(4);
  ranks.make(0, right);
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { ranks.make(1, wrong); }),
      HasSubstr("rank 0 has num_replicas 4, rank 1 has num_replicas 2"));
  NotedRanks others(4);
  auto early = others.make(1, wrong);
  others.make(0, right);
  EXPECT_THROW(early.next(), InvalidArgument);
}

TEST(SamplerCheck, LeavesAloneWhatIsNotForAllRanks) {
  NotedRanks ranks(4);
  // Two models that train side by side, and an evaluation on rank 0 alone.
  for (const int rank : {0, 1, 2, 3}) {
    auto sampler =
        ranks.make(rank, {.batch_size = rank < 2 ? 8 : 16, .num_replicas = 2});
    EXPECT_TRUE(sampler.next());
  }
  EXPECT_TRUE(ranks.make(0, {.batch_size = 3, .num_replicas = 1}).next());
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(ranks.make(rank, {.num_replicas = 4}).next());
  }
}

// Rank 0 makes one more than the others, first; it is no sampler of theirs.
TEST(SamplerCheck, LeavesAloneWhatOneRankMakesByItself) {
  NotedRanks ranks(3);
  auto own = ranks.make_elsewhere(0, {.batch_size = 3, .num_replicas = 3});
  auto first = ranks.make(0, {.batch_size = 8, .num_replicas = 3});
  auto second = ranks.make(1, {.batch_size = 8, .num_replicas = 3});
  for (auto* each : {&own, &first, &second}) {
    EXPECT_TRUE(each->next());
  }
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [&] { ranks.make(2, {.batch_size = 9, .num_replicas = 3}); }),
      HasSubstr("rank 0 has batch_size 8, rank 2 has batch_size 9"));
}

TEST(SamplerCheck, SaysWhichRankHasFewerBatches) {
  SamplerOptions options{.batch_size = 2, .num_replicas = 3};
  EXPECT_EQ(uneven_batches(7, options), "");
  options.pad = false;
  EXPECT_EQ(
      uneven_batches(7, options),
      "rank 2 of the sampler has 1 batches in an epoch and rank 0 has 2");
  EXPECT_EQ(uneven_batches(6, options), "");
  options.drop_last = true;
  EXPECT_EQ(uneven_batches(7, options), "");
}

TEST(Sampler, RefusesTheStateOfAnotherDataset) {
  DistributedBatchSampler sampler(10, {.shuffle = true, .seed = 1});
  const DistributedBatchSampler other(11, {.shuffle = true, .seed = 1});
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { sampler.load_state(other.state()); }),
      HasSubstr("dataset_size 11, this sampler 10"));
  auto state = sampler.state();
  state.seed = 2;
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { sampler.load_state(state); }),
      HasSubstr("seed 2"));
  EXPECT_THAT(
      message_of<InvalidArgument>([] { SamplerState::from_json("[]"); }),
      HasSubstr("expected a JSON object"));
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [] { SamplerState::from_json("{\"epoch\":0}"); }),
      HasSubstr("without position"));
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [] { SamplerState::from_json("{\"epoch\":\"x\"}"); }),
      HasSubstr("epoch \"x\", wrong type"));
}

} // namespace
} // namespace argosy::data
