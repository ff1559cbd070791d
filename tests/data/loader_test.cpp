#include "argosy/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <numeric>
#include <thread>

#include "tests/store/expect.h"

namespace argosy::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using namespace std::chrono_literals;

// Holds its readers up until it is opened.
class Gate {
 public:
  void open() { opened_.set_value(); }
  void pass() const { open_.wait(); }

 private:
  std::promise<void> opened_;
  std::shared_future<void> open_ = opened_.get_future().share();
};

// Sample i is 10 * i. What it does besides is set by `on_get`.
struct Tens {
  std::int64_t count = 20;
  std::function<void(std::int64_t)> on_get = [](std::int64_t) {};

  std::int64_t size() const { return count; }
  std::int64_t get(std::int64_t index) const {
    on_get(index);
    return 10 * index;
  }
};

std::int64_t sum(const std::vector<std::int64_t>& samples) {
  return std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
}

template <typename Loader>
auto take_epoch(Loader& loader) {
  std::vector<std::decay_t<decltype(*loader.next())>> all;
  while (auto batch = loader.next()) {
    all.push_back(std::move(*batch));
  }
  return all;
}

TEST(Loader, KeepsTheSamplersOrderWithAnyNumberOfThreads) {
  const SamplerOptions options{.batch_size = 3, .shuffle = true};
  for (const int threads : {0, 1, 2, 5}) {
    for (const int prefetch : {1, 2, 7}) {
      // Later samples are ready sooner.
      const Tens tens{100, [](std::int64_t index) {
                        for (auto i = index % 7; i < 7; ++i) {
                          std::this_thread::yield();
                        }
                      }};
      DataLoader loader(
          tens,
          DistributedBatchSampler(tens, options),
          sum,
          {.num_threads = threads, .num_prefetch = prefetch});
      EXPECT_EQ(loader.size(), 34);
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::int64_t> expected;
        for (const Batch& batch : plan_batches(100, options, epoch)) {
          expected.push_back(10 * sum(batch.indices));
        }
        EXPECT_EQ(take_epoch(loader), expected) << threads << " threads";
      }
    }
  }
}

TEST(Loader, WithoutCollateGivesTheSamples) {
  const Tens tens{3};
  DataLoader loader(tens, DistributedBatchSampler(tens, {.batch_size = 2}));
  EXPECT_THAT(
      take_epoch(loader), ElementsAre(ElementsAre(0, 10), ElementsAre(20)));
}

TEST(Loader, AsksTheDatasetForBatchesIfItMakesThem) {
  struct Sums {
    std::int64_t size() const { return 5; }
    std::unique_ptr<int> only_moved = nullptr;
    std::string get_batch(std::span<const std::int64_t> indices) const {
      return str(indices.front(), "-", indices.back());
    }
  };
  DataLoader loader(Sums(), DistributedBatchSampler(5, {.batch_size = 2}));
  EXPECT_THAT(take_epoch(loader), ElementsAre("0-1", "2-3", "4-4"));
}

TEST(Loader, LoadsNoMoreAheadThanAsked) {
  std::atomic<std::int64_t> taken = 0;
  std::atomic<std::int64_t> furthest = 0;
  std::promise<void> full;
  const Tens tens{100, [&](std::int64_t index) {
                    furthest = std::max<std::int64_t>(furthest, index - taken);
                    if (index == 3) {
                      full.set_value();
                    }
                  }};
  DataLoader loader(
      tens,
      DistributedBatchSampler(tens, {.batch_size = 1}),
      {.num_prefetch = 3});
  loader.next(); // sample 0; its place in the queue is for sample 3
  ASSERT_EQ(full.get_future().wait_for(10s), std::future_status::ready);
  for (++taken; loader.next(); ++taken) {
  }
  EXPECT_EQ(furthest, 3);
}

TEST(Loader, AnErrorComesOutAtItsBatchAndNamesTheSample) {
  for (const int threads : {0, 1, 3}) {
    const Tens tens{8, [](std::int64_t index) {
                      if (index == 5) {
                        throw SystemError("disc on fire");
                      }
                    }};
    DataLoader loader(
        tens,
        DistributedBatchSampler(tens, {.batch_size = 2}),
        sum,
        {.num_threads = threads});
    EXPECT_EQ(loader.next(), 10);
    EXPECT_EQ(loader.next(), 50);
    const SamplerState before = loader.state();
    try {
      loader.next();
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("sample 5 of epoch 0: disc on fire"));
      EXPECT_THROW(std::rethrow_if_nested(error), SystemError);
    }
    EXPECT_EQ(loader.state(), before);
    EXPECT_EQ(loader.next(), 130); // goes on after it
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, AnErrorOfCollateNamesTheBatch) {
  const Tens tens{8};
  DataLoader loader(
      tens,
      DistributedBatchSampler(tens, {.batch_size = 2}),
      [](const std::vector<std::int64_t>& samples) -> int {
        throw static_cast<int>(samples.size());
      });
  EXPECT_THAT(
      message_of<Error>([&] { loader.next(); }),
      HasSubstr("the batch of 2 samples from 0 on, epoch 0"));
}

TEST(Loader, StateCountsWhatWasDelivered) {
  const SamplerOptions options{
      .batch_size = 3, .num_replicas = 2, .rank = 1, .shuffle = true};
  const Tens tens{50};
  DataLoader whole(tens, DistributedBatchSampler(tens, options));
  const auto first = take_epoch(whole);
  const auto second = take_epoch(whole);
  for (std::size_t done = 0; done <= first.size(); ++done) {
    DataLoader before(
        tens,
        DistributedBatchSampler(tens, options),
        {.num_threads = 2, .num_prefetch = 5});
    for (std::size_t i = 0; i < done; ++i) {
      before.next();
    }
    DataLoader after(tens, DistributedBatchSampler(tens, options));
    after.next(); // what it has loaded ahead is of no use
    after.load_state(SamplerState::from_json(before.state().to_json()));
    auto expected = std::vector(first.begin() + done, first.end());
    if (after.state().epoch == 0) {
      EXPECT_EQ(take_epoch(after), expected);
    } else {
      EXPECT_TRUE(expected.empty());
    }
    EXPECT_EQ(take_epoch(after), second);
    after.set_epoch(0);
    EXPECT_EQ(take_epoch(after), first);
  }
}

TEST(Loader, WaitsOnlyUntilTheDeadline) {
  auto gate = std::make_shared<Gate>();
  const Tens tens{8, [gate](std::int64_t index) {
                    if (index == 3) {
                      gate->pass();
                    }
                  }};
  DataLoader loader(
      tens, DistributedBatchSampler(tens, {.batch_size = 2}), sum);
  EXPECT_EQ(loader.next(), 10);
  EXPECT_THAT(
      message_of<Error>([&] { loader.next(Deadline::after(50ms)); }),
      HasSubstr("was not ready after 50 ms"));
  gate->open();
  EXPECT_EQ(loader.next(), 50);
}

TEST(Loader, DestructionWaitsForASampleAndReadsNoFurther) {
  std::atomic<int> num_read = 0;
  std::promise<void> reading;
  {
    const Tens tens{1000, [&](std::int64_t) {
                      if (++num_read == 3) {
                        reading.set_value();
                      }
                      std::this_thread::sleep_for(5ms); // a slow disc
                    }};
    DataLoader loader(
        tens, DistributedBatchSampler(tens, {.batch_size = 1000}), sum);
    EXPECT_THROW(loader.next(Deadline::after(0ms)), TimeoutError);
    ASSERT_EQ(reading.get_future().wait_for(10s), std::future_status::ready);
  }
  const int at_end = num_read;
  EXPECT_GE(at_end, 3);
  EXPECT_LT(at_end, 1000);
}

TEST(Loader, DestructionDoesNotWaitForASampleThatNeverComes) {
  auto gate = std::make_shared<Gate>();
  auto left = std::make_shared<std::promise<void>>();
  {
    const Tens tens{8, [gate, left](std::int64_t) {
                      gate->pass();
                      left->set_value();
                    }};
    DataLoader loader(
        tens,
        DistributedBatchSampler(tens, {.batch_size = 2}),
        sum,
        {.shutdown = 20ms});
    EXPECT_THROW(loader.next(Deadline::after(20ms)), TimeoutError);
  }
  // The thread that was left behind still has all that it uses.
  gate->open();
  EXPECT_EQ(left->get_future().wait_for(10s), std::future_status::ready);
}

TEST(Loader, RefusesWhatCannotBe) {
  const Tens tens{8};
  const DistributedBatchSampler sampler(tens, {});
  EXPECT_THAT(
      message_of<Error>(
          [&] { DataLoader(tens, sampler, sum, {.num_threads = -1}); }),
      HasSubstr("num_threads -1"));
  EXPECT_THAT(
      message_of<Error>(
          [&] { DataLoader(tens, sampler, sum, {.num_prefetch = 0}); }),
      HasSubstr("num_prefetch 0"));
  EXPECT_THAT(
      message_of<Error>([&] { DataLoader(Tens{9}, sampler, sum); }),
      HasSubstr("a dataset of 9 samples, expected 8"));
}

} // namespace
} // namespace argosy::data
