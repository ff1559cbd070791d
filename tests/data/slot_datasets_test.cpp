// Slot datasets: batches, passes, shuffles within a worker and between workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/queue_dataset.h"
#include "argosy/data/slots/slot_batch.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/thrown_by.h"

namespace argosy::data {
namespace {

using argosy::testing::run_ranks;
using argosy::testing::thrown_by;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SlotDatasets : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    write_file(dir_.path() / name, content);
    return (dir_.path() / name).string();
  }
  // A file with the samples `first` to `first + count - 1`: the user is the
  // sample's number, and it has one to three tags that begin with it.
  std::string write_samples(int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) {
      text += str("1 ", i % 2, " 1 ", i, " ", 1 + i % 3);
      for (int tag = 0; tag <= i % 3; ++tag) {
        text += str(" ", 10 * i + tag);
      }
      text += "\n";
    }
    return write(str("from-", first, "-", count), text);
  }
  static SlotDatasetOptions options(std::int64_t batch_size = 4) {
    return {
        .slots =
            {{"label", SlotType::Float, {1}},
             {"user", SlotType::Id, {1}},
             {"tags", SlotType::Id, {}}},
        .batch_size = batch_size};
  }
  // The users of a pass, after checking that each sample is whole.
  static std::vector<std::int64_t> users_of(SlotDataset& dataset) {
    std::vector<std::int64_t> users;
    const auto pass = dataset.start_pass();
    while (const auto batch = pass->next()) {
      add_users(*batch, users);
    }
    return users;
  }
  static void add_users(
      const SlotBatch& batch, std::vector<std::int64_t>& users) {
    const at::Tensor& tags = batch["tags"].values;
    const at::Tensor& offsets = batch["tags"].offsets;
    ASSERT_EQ(offsets.size(0), batch.size);
    for (std::int64_t i = 0; i < batch.size; ++i) {
      const auto user = batch["user"].values[i][0].item<std::int64_t>();
      const auto first = offsets[i].item<std::int64_t>();
      const auto end = i + 1 < batch.size ? offsets[i + 1].item<std::int64_t>()
                                          : tags.size(0);
      EXPECT_EQ(end - first, 1 + user % 3);
      for (std::int64_t k = first; k < end; ++k) {
        EXPECT_EQ(tags[k].item<std::int64_t>(), 10 * user + k - first);
      }
      EXPECT_EQ(batch["label"].values[i][0].item<float>(), float(user % 2));
      users.push_back(user);
    }
  }
  static std::vector<std::int64_t> numbers(std::int64_t n) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  TempDir dir_;
};

TEST_F(SlotDatasets, BatchesAreWhatEmbeddingBagTakes) {
  QueueDataset dataset(options(3));
  dataset.set_filelist({write_samples(0, 3)});
  const auto pass = dataset.start_pass();
  const auto batch = pass->next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->size, 3);
  EXPECT_EQ((*batch)["label"].values.sizes(), (at::IntArrayRef{3, 1}));
  torch::nn::EmbeddingBag bag(
      torch::nn::EmbeddingBagOptions(100, 2).mode(torch::kSum));
  const at::Tensor sums =
      bag((*batch)["tags"].values, (*batch)["tags"].offsets);
  const at::Tensor& weight = bag->weight;
  EXPECT_TRUE(torch::allclose(sums[2], weight[20] + weight[21] + weight[22]));
  EXPECT_FALSE(pass->next());
  EXPECT_FALSE(pass->next());
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] { (*batch)["tag"]; }),
      HasSubstr("did you mean \"tags\"?"));
}

TEST_F(SlotDatasets, QueuesGiveEachSampleOnce) {
  std::vector<std::string> files;
  for (int i = 0; i < 20; ++i) {
    files.push_back(write_samples(100 * i, 100));
  }
  for (const int threads : {1, 3}) {
    for (const std::int64_t batch : {1, 7, 5000}) {
      auto how = options(batch);
      how.files.num_threads = threads;
      QueueDataset dataset(how);
      dataset.set_filelist(files);
      for (int pass = 0; pass < 2; ++pass) {
        auto users = users_of(dataset);
        if (threads > 1) {
          std::sort(users.begin(), users.end());
        }
        EXPECT_EQ(users, numbers(2000));
      }
    }
  }
  auto whole = options(300);
  whole.drop_last = true;
  QueueDataset dataset(whole);
  dataset.set_filelist(files);
  EXPECT_EQ(users_of(dataset).size(), 1800U);
}

// A pass that is left in the middle ends its threads; a file that fails ends
// the pass.
TEST_F(SlotDatasets, QueuesEndInTheMiddle) {
  QueueDataset dataset(options(1));
  std::vector<std::string> files;
  for (int i = 0; i < 50; ++i) {
    files.push_back(write_samples(20000 * i, 20000));
  }
  dataset.set_filelist(files);
  EXPECT_TRUE(dataset.start_pass()->next());
  dataset.set_filelist({files[0], (dir_.path() / "none").string()});
  EXPECT_THAT(
      thrown_by<SystemError>([&] { users_of(dataset); }), HasSubstr("none"));
}

TEST_F(SlotDatasets, SeveralThreadsShareAPass) {
  auto how = options(7);
  QueueDataset queue(how);
  InMemoryDataset memory(how);
  const std::string file = write_samples(0, 2000);
  queue.set_filelist({file});
  memory.set_filelist({file});
  memory.load_into_memory();
  for (SlotDataset* dataset :
       {static_cast<SlotDataset*>(&queue),
        static_cast<SlotDataset*>(&memory)}) {
    const auto pass = dataset->start_pass();
    std::mutex mutex;
    std::vector<std::int64_t> users;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (const auto batch = pass->next()) {
          const std::lock_guard lock(mutex);
          add_users(*batch, users);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    std::sort(users.begin(), users.end());
    EXPECT_EQ(users, numbers(2000));
  }
}

TEST_F(SlotDatasets, MemoryIsPassedOverAgainAndShuffled) {
  InMemoryDataset dataset(options());
  dataset.set_filelist({write_samples(0, 100), write_samples(100, 100)});
  dataset.set_date("20261118");
  EXPECT_EQ(dataset.date(), "20261118");
  dataset.load_into_memory();
  EXPECT_EQ(dataset.memory_data_size(), 200);
  EXPECT_EQ(users_of(dataset), numbers(200));
  dataset.local_shuffle();
  auto once = users_of(dataset);
  EXPECT_EQ(users_of(dataset), once);
  dataset.local_shuffle();
  auto twice = users_of(dataset);
  EXPECT_NE(once, twice);
  EXPECT_NE(once, numbers(200));
  std::sort(twice.begin(), twice.end());
  EXPECT_EQ(twice, numbers(200));
  // The same seed gives the same orders.
  InMemoryDataset other(options());
  other.set_filelist({write_samples(0, 100), write_samples(100, 100)});
  other.load_into_memory(true);
  EXPECT_EQ(users_of(other), once);
  dataset.release_memory();
  EXPECT_EQ(dataset.memory_data_size(), 0);
  EXPECT_EQ(dataset.memory_bytes(), 0);
  EXPECT_TRUE(users_of(dataset).empty());
}

TEST_F(SlotDatasets, PreloadingKeepsTheOldSamplesUntilItIsDone) {
  InMemoryDataset dataset(options());
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] { dataset.wait_preload_done(); }),
      HasSubstr("nothing is preloaded"));
  dataset.set_filelist({write_samples(0, 100)});
  dataset.load_into_memory();
  dataset.set_filelist({write_samples(0, 300)});
  dataset.preload_into_memory(2);
  EXPECT_EQ(users_of(dataset), numbers(100));
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] { dataset.preload_into_memory(); }),
      HasSubstr("a preload runs"));
  dataset.wait_preload_done();
  EXPECT_EQ(users_of(dataset), numbers(300));
  dataset.set_filelist({(dir_.path() / "none").string()});
  dataset.preload_into_memory();
  EXPECT_THAT(
      thrown_by<SystemError>([&] { dataset.wait_preload_done(); }),
      HasSubstr("none"));
  EXPECT_EQ(users_of(dataset), numbers(300)); // they are still there
  dataset.preload_into_memory();              // and nobody waits for it
}

TEST_F(SlotDatasets, SettingsThatDoNotFitTheSamplesAreRefused) {
  InMemoryDataset dataset(options());
  dataset.set_filelist({write_samples(0, 10)});
  dataset.load_into_memory();
  auto other = options(3);
  dataset.update_settings(other);
  EXPECT_EQ(dataset.start_pass()->next()->size, 3);
  other.slots.pop_back();
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] { dataset.update_settings(other); }),
      HasSubstr("call release_memory() first"));
  other = options(0);
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] { dataset.update_settings(other); }),
      HasSubstr("batch_size is 0"));
}

TEST_F(SlotDatasets, SlotsAreShuffledBetweenSamples) {
  InMemoryDataset dataset(options(200));
  dataset.set_filelist({write_samples(0, 200)});
  dataset.load_into_memory();
  dataset.slots_shuffle({"tags"});
  const auto pass = dataset.start_pass();
  const auto batch = pass->next();
  std::multiset<std::int64_t> tags;
  int moved = 0;
  const at::Tensor& offsets = (*batch)["tags"].offsets;
  for (std::int64_t i = 0; i < 200; ++i) {
    EXPECT_EQ((*batch)["user"].values[i][0].item<std::int64_t>(), i);
    EXPECT_EQ((*batch)["label"].values[i][0].item<float>(), float(i % 2));
    const auto first = (*batch)["tags"].values[offsets[i].item<std::int64_t>()];
    moved += first.item<std::int64_t>() != 10 * i ? 1 : 0;
    tags.insert(first.item<std::int64_t>());
  }
  EXPECT_GT(moved, 150);
  EXPECT_EQ(tags.size(), 200U);
  EXPECT_EQ(std::set(tags.begin(), tags.end()).size(), 200U);
}

// ---- Between workers --------------------------------------------------------

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
         .format = {.has_id = true, .allow_empty = true}});
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
