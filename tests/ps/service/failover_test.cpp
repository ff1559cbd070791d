// How long workers wait when a server is killed.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <iostream>
#include <limits>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/ps/client/client.h"
#include "argosy/ps/service/server.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/open_kv.h"
#include "tests/ps/service/self_process.h"
#include "tests/ps/service/small_model.h"
#include "tests/ps/service/two_copies.h"

namespace argosy::ps {
namespace {

using Clock = std::chrono::steady_clock;
using testing::variable;

constexpr int kWorkers = 2;

Deadline in_time() {
  return Deadline::after(std::chrono::seconds(40));
}

TEST(ServerOfAJob, DISABLED_Serves) {
  Server server(
      {.server = std::stoi(variable("PS_INDEX")),
       .shape = {2, 1},
       .kv = store::open_kv(variable("PS_STORE"), in_time()),
       .replicated = true});
  server.run(in_time());
}

// Two server processes with two copies of everything; workers are threads.
class Failover : public ::testing::Test {
 protected:
  Failover() : kv_(store::open_kv(url(), in_time())), directory_(kv_, "ps/") {
    start(0);
    start(1);
  }

  ~Failover() override {
    for (const pid_t pid : servers_) {
      testing::kill_hard(pid);
    }
  }

  std::string url() const { return str("tcp://127.0.0.1:", store_.port()); }

  void start(int index) {
    servers_[static_cast<std::size_t>(index)] = testing::start_self(
        {str("PS_INDEX=", index), "PS_STORE=" + url(), "ARGOSY_LOG=error"},
        "ServerOfAJob.*");
  }

  void await_two_copies() {
    const Deadline deadline = in_time();
    while (!copies_.there(in_time()) && !deadline.expired()) {
      std::this_thread::yield();
    }
    ASSERT_TRUE(copies_.there(in_time()));
  }

  std::unique_ptr<Client> client(int worker, bool sync) const {
    return std::make_unique<Client>(ClientOptions{
        .worker = worker,
        .job = {.num_workers = kWorkers, .sync = sync},
        .shape = {2, 1},
        .kv = kv_,
        .timeout = std::chrono::seconds(40)});
  }

  // Calls `step` until enough() was called.
  void work(const std::function<void(int step)>& step) {
    for (int i = 0; i < end_; ++i) {
      step(i);
      ++num_steps_;
    }
  }

  // Both workers end after a step that neither has begun: in sync mode they
  // take turns.
  void enough() { end_ = static_cast<int>(num_steps_ / kWorkers) + 1000; }

  // Kills a server; returns how long the workers stood still.
  Clock::duration kill_one(int index) {
    copies_.note_kill(index, in_time());
    const auto begin = Clock::now();
    testing::kill_hard(servers_[static_cast<std::size_t>(index)]);
    const auto before = num_steps_.load(); // what it had a part in
    const Deadline deadline = in_time();
    // Each of them takes several steps.
    while (num_steps_ < before + 8 && !deadline.expired()) {
      std::this_thread::yield();
    }
    EXPECT_GE(num_steps_, before + 8) << "the workers stand still";
    const auto waited = Clock::now() - begin;
    start(index);
    return waited;
  }

  // Kills servers beside workers; returns the shortest time that these stood
  // still in milliseconds, because others may have the machine for a while.
  int kill_beside(const std::function<void(int worker)>& body) {
    std::vector<std::thread> workers;
    for (int worker = 0; worker < kWorkers; ++worker) {
      workers.emplace_back([&body, worker] { body(worker); });
    }
    auto best = Clock::duration::max();
    for (const int index : {0, 1, 0}) {
      await_two_copies();
      if (HasFatalFailure()) {
        break; // another kill would lose the last copy
      }
      best = std::min(best, kill_one(index));
    }
    enough();
    for (std::thread& worker : workers) {
      worker.join();
    }
    return static_cast<int>(
        std::chrono::duration_cast<std::chrono::milliseconds>(best).count());
  }

  store::KvServer store_{{"127.0.0.1", 0}};
  std::shared_ptr<store::Kv> kv_;
  Directory directory_;
  TwoCopies copies_{directory_, 2};
  std::array<pid_t, 2> servers_{};
  std::atomic<std::int64_t> num_steps_ = 0; // of all workers
  std::atomic<int> end_ = std::numeric_limits<int>::max();
  std::array<std::vector<float>, kWorkers> rows_;
};

TEST_F(Failover, WorkersGoOnWithinASecond) {
  const int milliseconds = kill_beside([this](int worker) {
    const auto own = client(worker, true);
    own->create_table(embedding(3));
    work([&](int step) {
      train(
          *own, {.num_workers = kWorkers, .num_steps = step + 1}, worker, step);
    });
    rows_[static_cast<std::size_t>(worker)] = pull_all(*own, all_keys(), end_);
  });
  std::cout << "workers went on after " << milliseconds << " ms\n";
  EXPECT_LT(milliseconds, 1000);
  // No update was lost, none applied twice.
  const auto alone =
      train_alone({.num_workers = kWorkers, .num_steps = end_}, embedding(3));
  expect_same_bits(rows_[0], alone);
  expect_same_bits(rows_[1], alone);
}

// Nobody can tell the difference later, so the test looks at the moment.
TEST_F(Failover, AnUpdateIsAcknowledgedWhenBothCopiesHaveIt) {
  const auto own = client(0, false);
  own->create_table(embedding(1, Rule::Sum));
  await_two_copies();
  const auto backup = directory_.lineup(0, in_time())->backup;
  const pid_t pid = servers_[static_cast<std::size_t>(backup->server)];
  const std::vector<std::uint64_t> keys = {0}; // of region 0
  const std::vector<float> ones = {1.0f};
  own->push({{kTable, keys, ones}});
  own->flush();
  ::kill(pid, SIGSTOP);
  // Its threads run on until the signal reaches them.
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  own->push({{kTable, keys, ones}});
  auto flushed = std::async(std::launch::async, [&] { own->flush(); });
  EXPECT_EQ(
      flushed.wait_for(std::chrono::milliseconds(300)),
      std::future_status::timeout);
  ::kill(pid, SIGCONT);
  EXPECT_EQ(
      flushed.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

// Updates have no steps by which servers could tell that they know them.
TEST_F(Failover, AsynchronousUpdatesAreAppliedOnce) {
  TableSpec spec = embedding(1, Rule::Sum);
  spec.sparse.embedx_rule.initial_range = 0;
  const std::vector<float> ones(all_keys().size(), 1.0f);
  const int milliseconds = kill_beside([&](int worker) {
    const auto own = client(worker, false);
    own->create_table(spec);
    work([&](int) { own->push({{kTable, all_keys(), ones}}); });
    own->flush();
    own->barrier();
    rows_[static_cast<std::size_t>(worker)] = pull_all(*own, all_keys(), -1);
  });
  EXPECT_LT(milliseconds, 1000);
  for (const auto& rows : rows_) {
    for (const float row : rows) {
      ASSERT_EQ(row, static_cast<float>(num_steps_));
    }
  }
}

} // namespace
} // namespace argosy::ps
