// Servers and workers in one process, over real connections.

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/client/client.h"
#include "argosy/ps/service/server.h"
#include "argosy/store/mem_kv.h"
#include "tests/ps/service/small_model.h"

namespace argosy::ps {
namespace {

constexpr std::uint32_t kDense = 0;

TableSpec dense(std::uint64_t size) {
  TableSpec spec{.is_dense = true, .dense_size = size};
  spec.dense.table_id = kDense;
  return spec;
}

// Servers of one job, as threads of this process.
class Servers {
 public:
  explicit Servers(Shape shape, bool replicated = false, LogOptions log = {})
      : shape_(shape), replicated_(replicated), log_(std::move(log)) {
    servers_.resize(static_cast<std::size_t>(shape.num_servers));
    for (int i = 0; i < shape.num_servers; ++i) {
      start(i);
    }
  }

  void start(int index) {
    servers_[static_cast<std::size_t>(index)] =
        std::make_unique<Server>(ServerOptions{
            .server = index,
            .shape = shape_,
            .kv = kv_,
            .replicated = replicated_,
            .log = log_});
  }
  void end(int index) { servers_[static_cast<std::size_t>(index)].reset(); }

  std::unique_ptr<Client> worker(int index, const JobSpec& job) {
    return std::make_unique<Client>(ClientOptions{
        .worker = index,
        .job = job,
        .shape = shape_,
        .kv = kv_,
        .timeout = std::chrono::seconds(20)});
  }

  const std::shared_ptr<store::Kv>& kv() const { return kv_; }

 private:
  Shape shape_;
  bool replicated_;
  LogOptions log_;
  std::shared_ptr<store::Kv> kv_ = std::make_shared<store::MemKv>();
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST(ParameterServer, PushesChangeTheRowsThatPullsReturn) {
  for (const Shape shape : {Shape{1, 1}, Shape{2, 1}, Shape{3, 2}}) {
    Servers servers(shape);
    const auto client = servers.worker(0, {.num_workers = 1, .sync = false});
    client->create_table(embedding(3));
    const std::vector<std::uint64_t> keys = {5, 7, 5, 1000000007, 12, 999};
    const auto before = pull_all(*client, keys, -1);
    EXPECT_TRUE(std::equal(&before[0], &before[3], &before[6])); // key 5 twice
    std::vector<float> gradients(keys.size() * 3);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = static_cast<float>(i);
    }
    client->push({{kTable, keys, gradients}});
    client->flush();
    const auto after = pull_all(*client, keys, -1);
    for (int d = 0; d < 3; ++d) {
      EXPECT_EQ(
          after[d], before[d] - 0.05f * (gradients[d] + gradients[6 + d]));
      EXPECT_EQ(after[3 + d], before[3 + d] - 0.05f * gradients[3 + d]);
    }
    EXPECT_EQ(client->stat(kTable).rows, 5u);
  }
}

TEST(ParameterServer, DenseTablesAreCutOverServers) {
  Servers servers({3, 1});
  const auto client = servers.worker(0, {.num_workers = 1, .sync = false});
  client->create_table(dense(7));
  const std::vector<float> start = {1, 2, 3, 4, 5, 6, 7};
  client->set_dense(kDense, start);
  const std::vector<float> gradient = {7, 6, 5, 4, 3, 2, 1};
  client->push({}, {{kDense, gradient}});
  client->flush();
  std::vector<float> values(7);
  client->pull({}, {{kDense, values}});
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(values[i], start[i] - 0.01f * gradient[i]);
  }
}

TEST(ParameterServer, RefusesBadInputByName) {
  Servers servers({2, 1});
  const auto client = servers.worker(0, {.num_workers = 1, .sync = false});
  client->create_table(embedding(2));
  const std::vector<std::uint64_t> keys = {1, 2};
  std::vector<float> rows(4);
  const auto message_of = [&](const auto& action) {
    try {
      action();
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(contains(
      message_of([&] {
        client->pull({{9, keys, rows}});
      }),
      "table 9"));
  std::vector<float> wide(5);
  EXPECT_TRUE(contains(
      message_of([&] {
        client->pull({{kTable, keys, wide}});
      }),
      "expected 2"));
  rows[1] = NAN;
  EXPECT_TRUE(contains(
      message_of([&] {
        client->push({{kTable, keys, rows}});
        client->flush();
      }),
      "items"));
  // What is refused does not disturb what follows.
  client->push({{kTable, keys, std::vector<float>{1, 1, 1, 1}}});
  client->flush();
  EXPECT_EQ(client->stat(kTable).rows, 2u);
  TableSpec other = embedding(4);
  EXPECT_TRUE(
      contains(message_of([&] { client->create_table(other); }), "items"));
  EXPECT_THROW(
      servers.worker(0, {.num_workers = 2, .sync = false}), InvalidArgument);
}

TEST(ParameterServer, SynchronousStepsHaveTheBitsOfOneProcess) {
  const Training run{.num_workers = 3, .num_steps = 30};
  for (const Rule rule : {Rule::Naive, Rule::AdaGrad, Rule::Adam}) {
    const TableSpec spec = embedding(run.dim, rule);
    Servers servers({2, 1}, true);
    const JobSpec job{.num_workers = run.num_workers};
    std::vector<std::thread> threads;
    for (int w = 0; w < run.num_workers; ++w) {
      threads.emplace_back([&, w] {
        const auto client = servers.worker(w, job);
        client->create_table(spec);
        train(*client, run, w, 0);
        client->barrier();
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    const auto client = servers.worker(0, job);
    client->create_table(spec);
    EXPECT_EQ(client->resume_step(), run.num_steps);
    expect_same_bits(
        pull_all(*client, all_keys(), run.num_steps), train_alone(run, spec));
  }
}

TEST(ParameterServer, AStepThatWaitsNamesTheWorkersThatAreMissing) {
  Servers servers({1, 1});
  const JobSpec job{.num_workers = 3};
  Client client(
      {.worker = 1,
       .job = job,
       .kv = servers.kv(),
       .timeout = std::chrono::milliseconds(500)});
  client.create_table(embedding(2));
  client.push({}, {}, 0);
  try {
    pull_all(client, all_keys(), 1);
    FAIL() << "the pull did not wait";
  } catch (const TimeoutError& error) {
    EXPECT_NE(std::string(error.what()).find("region 0"), std::string::npos);
  }
}

TEST(ParameterServer, SavesAndLoadsOnAnotherNumberOfServers) {
  const TempDir folder;
  const TableSpec spec = embedding(3, Rule::AdaGrad);
  const JobSpec job{.num_workers = 1, .sync = false};
  std::vector<float> saved;
  {
    Servers servers({2, 1});
    const auto client = servers.worker(0, job);
    client->create_table(spec);
    client->create_table(dense(11));
    client->set_dense(kDense, std::vector<float>(11, 2.5f));
    const auto keys = all_keys();
    client->push({{kTable, keys, std::vector<float>(150, 0.25f)}});
    client->save(folder.path().string(), SaveMode::Checkpoint);
    saved = pull_all(*client, keys, -1);
  }
  Servers servers({3, 1}, true);
  const auto client = servers.worker(0, job);
  client->create_table(spec);
  client->create_table(dense(11));
  client->load(folder.path().string());
  expect_same_bits(pull_all(*client, all_keys(), -1), saved);
  std::vector<float> values(11);
  client->pull({}, {{kDense, values}});
  EXPECT_EQ(values, std::vector<float>(11, 2.5f));
  EXPECT_EQ(client->stat(kTable).rows, 50u);
}

TEST(ParameterServer, AServerThatComesBackReadsItsLog) {
  const TempDir folder;
  const Training run{.num_workers = 1, .num_steps = 20};
  const TableSpec spec = embedding(run.dim, Rule::Adam);
  // A small limit: the log is replaced by snapshots many times.
  Servers servers(
      {2, 1}, false, {.folder = folder.path().string(), .limit_bytes = 1000});
  const JobSpec job{.num_workers = 1};
  const auto client = servers.worker(0, job);
  client->create_table(spec);
  for (int step = 0; step < run.num_steps; ++step) {
    train(*client, {.num_workers = 1, .num_steps = step + 1}, 0, step);
    if (step % 5 == 2) {
      servers.end(step % 2);
      servers.start(step % 2);
    }
  }
  expect_same_bits(
      pull_all(*client, all_keys(), run.num_steps), train_alone(run, spec));
}

TEST(ParameterServer, GoesOnWithTheBackupAndTakesTheServerBack) {
  const Training run{.num_workers = 1, .num_steps = 40};
  const TableSpec spec = embedding(run.dim, Rule::Adam);
  Servers servers({2, 1}, true);
  const JobSpec job{.num_workers = 1};
  const auto client = servers.worker(0, job);
  client->create_table(spec);
  Directory directory(servers.kv(), "ps/");
  const auto await_backups = [&] {
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    for (int region = 0; region < 2;) {
      const auto lineup = directory.lineup(region, deadline);
      ASSERT_FALSE(deadline.expired());
      region += lineup && lineup->backup;
      std::this_thread::yield();
    }
  };
  int ended = 0;
  for (int step = 0; step < run.num_steps; ++step) {
    if (step % 10 == 3) {
      await_backups();
      const Deadline deadline = Deadline::after(std::chrono::seconds(20));
      ended = directory.lineup(0, deadline)->leader.server;
      servers.end(ended);
    }
    train(*client, {.num_workers = 1, .num_steps = step + 1}, 0, step);
    if (step % 10 == 6) {
      servers.start(ended);
    }
  }
  EXPECT_GE(client->num_failovers(), 4u);
  expect_same_bits(
      pull_all(*client, all_keys(), run.num_steps), train_alone(run, spec));
}

TEST(ParameterServer, GeoWorkersSeeWhatOthersChange) {
  Servers servers({2, 1});
  const JobSpec job{.num_workers = 2, .sync = false, .geo = true};
  const auto first = servers.worker(0, job);
  const auto second = servers.worker(1, job);
  const TableSpec spec = embedding(2, Rule::Sum);
  first->create_table(spec);
  second->create_table(spec);
  const std::vector<std::uint64_t> keys = {3, 501, 8};
  first->push({{kTable, keys, std::vector<float>{1, 1, 2, 2, 3, 3}}});
  first->flush();
  EXPECT_TRUE(first->take_changed(kTable).keys.empty());
  const auto changed = second->take_changed(kTable);
  EXPECT_EQ(changed.keys.size(), 3u);
  expect_same_bits(changed.values, [&] {
    std::vector<float> rows(changed.keys.size() * 2);
    second->pull({{kTable, changed.keys, rows}});
    return rows;
  }());
  EXPECT_TRUE(second->take_changed(kTable).keys.empty());
}

} // namespace
} // namespace argosy::ps
