// Shuffles of slot datasets between workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "argosy/comm/ops.h"
#include "argosy/common/fault_point.h"
#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/data/slot_dataset_fixture.h"
#include "tests/support/peak_memory.h"
#include "tests/support/thrown_by.h"
#include "tests/support/victim.h"

namespace argosy::data {
namespace {

using argosy::testing::PeakMemory;
using argosy::testing::run_process_ranks;
using argosy::testing::run_ranks;
using argosy::testing::run_with_victim;
using argosy::testing::thrown_by;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GlobalShuffle : public SlotDatasets,
                      public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, GlobalShuffle, ::testing::Values(1, 2, 3, 4));

// Uneven: rank r begins with 300 * r samples, so rank 0 has none.
TEST_P(GlobalShuffle, DealsAllSamplesOutOnce) {
  const int size = GetParam();
  std::mutex mutex;
  std::vector<std::int64_t> all;
  std::vector<std::size_t> counts;
  std::int64_t total = 0;
  std::vector<std::string> files;
  for (int rank = 0; rank < size; ++rank) {
    const int count = size == 1 ? 300 : 300 * rank;
    files.push_back(write_samples(static_cast<int>(total), count));
    total += count;
  }
  run_ranks(size, [&](World& world) {
    InMemoryDataset dataset(options());
    dataset.set_filelist({files[static_cast<std::size_t>(world.rank())]});
    dataset.load_into_memory();
    EXPECT_EQ(dataset.memory_data_size(get_group()), total);
    dataset.global_shuffle();
    EXPECT_EQ(dataset.memory_data_size(get_group()), total);
    const auto users = users_of(dataset);
    const std::lock_guard lock(mutex);
    all.insert(all.end(), users.begin(), users.end());
    counts.push_back(users.size());
  });
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, numbers(total));
  for (const std::size_t count : counts) {
    const auto mean = static_cast<double>(total) / size;
    EXPECT_NEAR(static_cast<double>(count), mean, 5 * std::sqrt(mean));
  }
}

// Samples that are longer than a round, and others; the same shuffle again is
// the same, and other processes do it alike.
TEST_F(SlotDatasets, LongSamplesAreDealtOutByProcesses) {
  run_process_ranks(3, [&](World& world) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      const int count = i % 4 == 0 ? 100'000 : i;
      text += str("1 0 1 ", 100 * world.rank() + i, " ", count);
      for (int tag = 0; tag < count; ++tag) {
        text += " 7";
      }
      text += "\n";
    }
    auto how = options();
    how.format = MultiSlotOptions{.allow_empty = true};
    how.seed = 3;
    std::vector<std::vector<std::int64_t>> orders;
    for (int run = 0; run < 2; ++run) {
      InMemoryDataset dataset(how);
      dataset.set_filelist({write("long", text)});
      dataset.load_into_memory();
      const std::int64_t bytes = dataset.memory_bytes();
      dataset.global_shuffle();
      dataset.global_shuffle();
      const at::Tensor sums = torch::tensor({bytes, -dataset.memory_bytes()});
      all_reduce(sums);
      EXPECT_EQ(sums.sum().item<std::int64_t>(), 0);
      std::vector<std::int64_t> users;
      at::Tensor seen = torch::zeros({300}, torch::kLong);
      const auto pass = dataset.start_pass();
      while (const auto batch = pass->next()) {
        for (std::int64_t i = 0; i < batch->size; ++i) {
          users.push_back((*batch)["user"].values[i][0].item<std::int64_t>());
          seen[users.back()] += 1;
        }
        EXPECT_TRUE((*batch)["tags"].values.eq(7).all().item<bool>());
      }
      all_reduce(seen);
      for (int rank = 0; rank < 3; ++rank) {
        EXPECT_TRUE(seen.narrow(0, 100 * rank, 12).eq(1).all().item<bool>());
      }
      EXPECT_EQ(seen.sum().item<std::int64_t>(), 36);
      orders.push_back(users);
    }
    EXPECT_EQ(orders[0], orders[1]);
  });
}

// A worker needs memory for its samples and less than a third more, not for two
// times its samples.
TEST_F(SlotDatasets, ShufflesNeedLittleMemory) {
  std::string tags = "100";
  for (int i = 0; i < 100; ++i) {
    tags += " 7";
  }
  auto how = options();
  how.files.pipe_command = str("yes '1 1 1 0 ", tags, "' | head -n 200000");
  const std::string nothing = write("nothing", "");
  std::int64_t grown = 0;
  run_ranks(2, [&](World& world) {
    InMemoryDataset dataset(how);
    dataset.set_filelist({nothing});
    dataset.load_into_memory();
    EXPECT_GT(dataset.memory_bytes(), 160'000'000);
    barrier();
    const PeakMemory peak;
    barrier();
    for (int i = 0; i < 2; ++i) {
      dataset.global_shuffle();
    }
    barrier();
    EXPECT_EQ(dataset.memory_data_size(get_group()), 400'000);
    if (world.rank() == 0) {
      grown = peak.grown_bytes();
    }
    barrier();
  });
  EXPECT_LT(grown, 100'000'000); // of both, which have 320 MB
}

TEST_F(SlotDatasets, ARankThatDiesInAShuffleIsNamed) {
  const std::string file = write_samples(0, 20'000);
  run_with_victim(3, 1, [&](World& world) {
    InMemoryDataset dataset(options());
    dataset.set_filelist({file});
    dataset.load_into_memory();
    dataset.global_shuffle();
    if (world.rank() == 1) {
      set_fault("data.shuffle:kill:2");
    }
    EXPECT_THAT(
        thrown_by<PeerLost>([&] {
          for (int i = 0; i < 4; ++i) {
            dataset.global_shuffle();
          }
        }),
        HasSubstr("rank 1"));
    EXPECT_EQ(dataset.memory_data_size(), 0); // some were on their way
  });
}

TEST_F(SlotDatasets, SamplesOfAUserMeetOnOneWorker) {
  std::mutex mutex;
  std::map<std::int64_t, std::set<int>> workers_of;
  std::vector<std::string> files;
  for (int rank = 0; rank < 3; ++rank) {
    files.push_back(write(str("all-", rank), *read_file(write_samples(0, 90))));
  }
  run_ranks(3, [&](World& world) {
    InMemoryDataset dataset(options());
    dataset.set_filelist({files[static_cast<std::size_t>(world.rank())]});
    dataset.load_into_memory();
    dataset.global_shuffle(nullptr, {.by = ShuffleBy::Slot, .slot = "user"});
    const std::lock_guard lock(mutex);
    for (const std::int64_t user : users_of(dataset)) {
      workers_of[user].insert(world.rank());
    }
  });
  EXPECT_EQ(workers_of.size(), 90U);
  std::set<int> used;
  for (const auto& [user, workers] : workers_of) {
    EXPECT_EQ(workers.size(), 1U) << user;
    used.insert(*workers.begin());
  }
  EXPECT_THAT(used, ElementsAre(0, 1, 2));
}

// A sample's features come from two logs, on different workers.
TEST_F(SlotDatasets, SamplesWithTheSameIdAreMerged) {
  std::vector<std::string> files(2);
  for (int part = 0; part < 2; ++part) {
    std::string text;
    for (int i = 0; i < 50; ++i) {
      const std::string absent = "0";
      const std::string tags = str("1 ", 10 * i);
      // Id 3 has no second part; in id 4 both have the tags.
      if (i == 3 && part == 1) {
        continue;
      }
      text +=
          str("1 line-",
              i,
              " 1 1 ",
              part == 0 ? str("1 ", i) : absent,
              " ",
              part == 1 || i == 4 ? tags : absent,
              "\n");
    }
    files[static_cast<std::size_t>(part)] = write(str("part-", part), text);
  }
  std::mutex mutex;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> merged;
  MergeCounts counts;
  run_ranks(2, [&](World& world) {
    InMemoryDataset dataset(
        {.slots =
             {{"label", SlotType::Float, {1}},
              {"user", SlotType::Id, {}},
              {"tags", SlotType::Id, {}}},
         .format = MultiSlotOptions{.has_id = true, .allow_empty = true}});
    dataset.set_filelist({files[static_cast<std::size_t>(world.rank())]});
    dataset.load_into_memory();
    const MergeCounts own = dataset.global_shuffle(
        nullptr, {.by = ShuffleBy::Id, .merge = true, .merge_size = 2});
    const std::lock_guard lock(mutex);
    counts.merged += own.merged;
    counts.wrong_size += own.wrong_size;
    counts.conflicts += own.conflicts;
    const auto pass = dataset.start_pass();
    while (const auto batch = pass->next()) {
      merged[batch->ids[0]] = {
          (*batch)["user"].values[0].item<std::int64_t>(),
          (*batch)["tags"].values[0].item<std::int64_t>()};
    }
  });
  EXPECT_EQ(counts.merged, 48);
  EXPECT_EQ(counts.wrong_size, 1);
  EXPECT_EQ(counts.conflicts, 1);
  ASSERT_EQ(merged.size(), 48U);
  for (const auto& [id, values] : merged) {
    EXPECT_EQ(id, str("line-", values.first));
    EXPECT_EQ(values.second, 10 * values.first);
  }
}

TEST_F(SlotDatasets, ShufflesThatCannotBeAreRefused) {
  run_ranks(1, [&](World&) {
    InMemoryDataset dataset(options());
    const auto refused = [&](const GlobalShuffleOptions& how) {
      return thrown_by<InvalidArgument>(
          [&] { dataset.global_shuffle(nullptr, how); });
    };
    EXPECT_THAT(
        refused({.by = ShuffleBy::Id}), HasSubstr("by id: samples have none"));
    EXPECT_THAT(refused({.merge = true}), HasSubstr("expected ShuffleBy::Id"));
    EXPECT_THAT(
        refused({.by = ShuffleBy::Slot, .slot = "label"}),
        HasSubstr("slot \"label\" has floats"));
  });
}

} // namespace
} // namespace argosy::data
