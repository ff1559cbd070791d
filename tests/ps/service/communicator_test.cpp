// When gradients reach the servers, in each mode.

#include "argosy/ps/client/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/ps/client/geo_table.h"
#include "argosy/ps/service/server.h"
#include "argosy/store/mem_kv.h"
#include "tests/ps/service/small_model.h"

namespace argosy::ps {
namespace {

class CommunicatorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> worker(int index, const JobSpec& job) {
    return std::make_unique<Client>(ClientOptions{
        .worker = index,
        .job = job,
        .kv = kv_,
        .timeout = std::chrono::seconds(20)});
  }

  static Gradients ones(std::vector<std::uint64_t> keys) {
    std::vector<float> records(keys.size() * 2, 1.0f);
    Gradients gradients;
    gradients.sparse.push_back({kTable, std::move(keys), std::move(records)});
    return gradients;
  }

  std::shared_ptr<store::Kv> kv_ = std::make_shared<store::MemKv>();
  Server server_{{.kv = kv_}};
};

TEST_F(CommunicatorTest, AsyncAppliesEveryBatchAndKeepsItsBound) {
  const auto client = worker(0, {.num_workers = 1, .sync = false});
  client->create_table(embedding(2, Rule::Sum));
  const std::vector<std::uint64_t> keys = {4, 9};
  const auto before = pull_all(*client, keys, -1);
  Communicator communicator(
      *client,
      {.mode = Mode::Async, .send_queue_size = 3, .max_merge_var_num = 2});
  for (int i = 0; i < 200; ++i) {
    communicator.push(ones({4, 9}));
  }
  communicator.stop();
  EXPECT_EQ(communicator.staleness(), 0);
  EXPECT_GE(communicator.max_staleness(), 1);
  EXPECT_LE(communicator.max_staleness(), communicator.max_staleness_bound());
  const auto after = pull_all(*client, keys, -1);
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_NEAR(after[i] - before[i], 200, 1e-3);
  }
}

TEST_F(CommunicatorTest, AsyncReportsWhatServersRefuse) {
  const auto client = worker(0, {.num_workers = 1, .sync = false});
  client->create_table(embedding(2));
  Communicator communicator(*client, {.mode = Mode::Async});
  Gradients bad = ones({1});
  bad.sparse[0].records[0] = NAN;
  communicator.push(bad);
  EXPECT_THROW(communicator.flush(), InvalidArgument);
}

TEST_F(CommunicatorTest, HalfAsyncWaitsForAllThreadsOfTheWorker) {
  const auto client = worker(0, {.num_workers = 2, .sync = false});
  client->create_table(embedding(2, Rule::Sum));
  Communicator communicator(
      *client, {.mode = Mode::HalfAsync, .num_threads = 3});
  const auto before = pull_all(*client, {{7}}, -1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int step = 0; step < 20; ++step) {
        communicator.push(ones({7}));
        // Three threads' gradients of each step, and none of a next one that
        // waits for this thread.
        const float sum = pull_all(*client, {{7}}, -1)[0] - before[0];
        EXPECT_NEAR(sum, 3.0f * static_cast<float>(step + 1), 1e-2);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_LE(communicator.max_staleness(), 3);
}

TEST_F(CommunicatorTest, HalfAsyncTellsAllThreadsWhatServersRefuse) {
  const auto client = worker(0, {.num_workers = 1, .sync = false});
  client->create_table(embedding(2));
  Communicator communicator(
      *client, {.mode = Mode::HalfAsync, .num_threads = 3});
  std::atomic<int> told = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Gradients batch = ones({1});
      if (t == 1) {
        batch.sparse[0].records[0] = NAN;
      }
      try {
        communicator.push(std::move(batch));
      } catch (const InvalidArgument&) {
        ++told;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(told, 3);
  EXPECT_EQ(communicator.staleness(), 0);
}

TEST_F(CommunicatorTest, HalfAsyncSaysHowManyThreadsHavePushed) {
  Client client(ClientOptions{
      .worker = 0,
      .job = {.num_workers = 1, .sync = false},
      .kv = kv_,
      .timeout = std::chrono::milliseconds(500)});
  client.create_table(embedding(2));
  Communicator communicator(
      client, {.mode = Mode::HalfAsync, .num_threads = 2});
  try {
    communicator.push(ones({1}));
    FAIL() << "it waited for nobody";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("1 of 2 threads"));
  }
}

TEST_F(CommunicatorTest, GeoWorkersConverge) {
  const JobSpec job{.num_workers = 2, .sync = false, .geo = true};
  const TableSpec spec = GeoTable::server_spec(embedding(2, Rule::Sum));
  const auto first = worker(0, job);
  const auto second = worker(1, job);
  first->create_table(spec);
  second->create_table(spec);
  GeoTable a(*first, spec, {.rule = Rule::Naive, .learning_rate = 0.1f});
  GeoTable b(*second, spec, {.rule = Rule::Naive, .learning_rate = 0.1f});
  const std::vector<std::uint64_t> keys = {1, 2, 3};
  std::vector<float> start(6);
  a.pull(keys, start);
  const std::vector<float> gradient = {1, 1};
  const std::uint64_t one = 1;
  const std::uint64_t two = 2;
  for (int i = 0; i < 5; ++i) {
    a.push({&one, 1}, gradient); // 5 steps of -0.1
    b.push({&two, 1}, gradient);
  }
  a.exchange();
  b.exchange();
  // Half of each difference arrives, as if both had contributed to a mean.
  std::vector<float> rows(6);
  b.pull(keys, rows);
  EXPECT_NEAR(rows[0], start[0] - 0.25f, 1e-5);
  EXPECT_NEAR(rows[2], start[2] - 0.5f, 1e-5); // its own, all of it
  EXPECT_NEAR(rows[4], start[4], 1e-5);
  // Without training the rest arrives bit by bit, and both see the same.
  for (int i = 0; i < 40; ++i) {
    for (GeoTable* table : {&a, &b}) {
      table->push(keys, std::vector<float>(6, 0.0f));
      table->exchange();
    }
  }
  std::vector<float> others(6);
  a.pull(keys, others);
  b.pull(keys, rows);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(rows[i], others[i], 1e-4);
  }
}

TEST_F(CommunicatorTest, AWorkerThatComesBackGoesOnAtItsStep) {
  const JobSpec job{.num_workers = 1};
  {
    const auto client = worker(0, job);
    client->create_table(embedding(2));
    Communicator communicator(*client, {});
    communicator.push(ones({1}));
    communicator.push(ones({2}));
  }
  const auto client = worker(0, job);
  client->create_table(embedding(2));
  Communicator communicator(*client, {});
  communicator.set_step(client->resume_step());
  EXPECT_EQ(communicator.step(), 2);
  communicator.push(ones({3}));
  EXPECT_EQ(client->stat(kTable).rows, 3u);
}

TEST_F(CommunicatorTest, RefusesSettingsByName) {
  const auto client = worker(0, {.num_workers = 1, .sync = false});
  EXPECT_THROW(Communicator(*client, {.mode = Mode::Sync}), InvalidArgument);
  try {
    Communicator(*client, {.mode = Mode::Async, .send_queue_size = 0});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(
        std::string(error.what()).find("send_queue_size"), std::string::npos);
  }
}

} // namespace
} // namespace argosy::ps
