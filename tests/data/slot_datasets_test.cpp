// Slot datasets: batches, passes, shuffles within a worker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <set>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/queue_dataset.h"
#include "tests/data/slot_dataset_fixture.h"
#include "tests/support/thrown_by.h"

namespace argosy::data {
namespace {

using argosy::testing::thrown_by;
using ::testing::HasSubstr;

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

} // namespace
} // namespace argosy::data
