// Processes that are killed while they train. What they leave must have the
// bits of a run that nobody disturbed.

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/client/client.h"
#include "argosy/ps/service/server.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/open_kv.h"
#include "tests/ps/service/self_process.h"
#include "tests/ps/service/small_model.h"
#include "tests/ps/service/two_copies.h"
#include "tests/support/soak_seeds.h"

namespace argosy::ps {
namespace {

using testing::variable;

constexpr int kNumWorkers = 2;
constexpr auto kLimit = std::chrono::seconds(60);

Deadline soon() {
  return Deadline::after(kLimit);
}

TableSpec table_of_kills() {
  return embedding(3, Rule::Adam);
}

// What a process of the job does. Run by the tests below, not by itself.
TEST(ProcessOfAJob, DISABLED_Runs) {
  const auto kv = store::open_kv(variable("PS_STORE"), soon());
  const int index = std::stoi(variable("PS_INDEX"));
  const Shape shape{2, 1};
  if (variable("PS_ROLE") == "server") {
    Server server(
        {.server = index,
         .shape = shape,
         .kv = kv,
         .replicated = variable("PS_LOG").empty(),
         .log = {.folder = variable("PS_LOG"), .limit_bytes = 20000}});
    server.run(soon());
    return;
  }
  Client client(
      {.worker = index,
       .job = {.num_workers = kNumWorkers},
       .shape = shape,
       .kv = kv,
       .timeout = kLimit});
  client.create_table(table_of_kills());
  const Training run{
      .num_workers = kNumWorkers, .num_steps = std::stoi(variable("PS_STEPS"))};
  train(client, run, index, client.resume_step());
}

// Starts and kills the processes of a job.
class Job {
 public:
  Job(int num_steps, std::string log)
      : server_({"127.0.0.1", 0}),
        num_steps_(num_steps),
        log_(std::move(log)),
        kv_(store::open_kv(url(), soon())),
        directory_(kv_, "ps/") {
    for (int i = 0; i < 2; ++i) {
      start("server", i);
    }
    for (int i = 0; i < kNumWorkers; ++i) {
      start("worker", i);
    }
  }

  ~Job() {
    for (const auto& [name, pid] : running_) {
      testing::kill_hard(pid);
    }
  }

  std::string url() const { return str("tcp://127.0.0.1:", server_.port()); }
  const std::shared_ptr<store::Kv>& kv() const { return kv_; }

  // Two copies withstand one loss at a time; a log withstands any.
  bool may_lose_server() { return !log_.empty() || copies_.there(soon()); }

  void kill_and_restart(const std::string& role, int index) {
    const auto name = std::pair(role, index);
    const auto found = running_.find(name);
    if (found == running_.end()) {
      return; // a worker that is done
    }
    if (role == "server") {
      copies_.note_kill(index, soon());
    }
    testing::kill_hard(found->second);
    running_.erase(found);
    start(role, index);
  }

  // Notices workers that have ended; returns whether all have.
  bool is_done() {
    for (auto it = running_.begin(); it != running_.end();) {
      int status = 0;
      if (::waitpid(it->second, &status, WNOHANG) == 0) {
        ++it;
        continue;
      }
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << it->first.first << ' ' << it->first.second << " failed";
      it = running_.erase(it);
    }
    return !running_.contains({"worker", 0}) &&
        !running_.contains({"worker", 1});
  }

 private:
  void start(const std::string& role, int index) {
    running_[{role, index}] = testing::start_self(
        {"PS_ROLE=" + role,
         str("PS_INDEX=", index),
         "PS_STORE=" + url(),
         "PS_LOG=" + log_,
         str("PS_STEPS=", num_steps_),
         "ARGOSY_LOG=error"},
        "ProcessOfAJob.*");
  }

  store::KvServer server_;
  const int num_steps_;
  const std::string log_;
  std::shared_ptr<store::Kv> kv_;
  Directory directory_;
  TwoCopies copies_{directory_, 2};
  std::map<std::pair<std::string, int>, pid_t> running_;
};

// Kills processes at times that the seed gives until the workers are done.
// Returns how many it killed.
int disturb(Job& job, unsigned seed, int most_kills) {
  std::mt19937 random(seed);
  int kills = 0;
  const Deadline deadline = soon();
  while (!job.is_done()) {
    if (deadline.expired()) {
      ADD_FAILURE() << "the workers are not done after " << kills << " kills";
      return kills;
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(5 + random() % 60)); // when to kill
    const int index = static_cast<int>(random() % 2);
    if (kills < most_kills) {
      const bool server = random() % 2 == 0 && job.may_lose_server();
      job.kill_and_restart(server ? "server" : "worker", index);
      ++kills;
    }
  }
  return kills;
}

// Returns how many kills there were.
int expect_undisturbed(unsigned seed, bool with_log, int kills, int steps) {
  const TempDir folder;
  Job job(steps, with_log ? folder.path().string() : "");
  const int done = disturb(job, seed, kills);
  EXPECT_GE(done, kills / 2) << "the run was too short";
  Client client(
      {.worker = 0,
       .job = {.num_workers = kNumWorkers},
       .shape = {2, 1},
       .kv = job.kv(),
       .timeout = kLimit});
  client.create_table(table_of_kills());
  const auto rows = pull_all(client, all_keys(), steps);
  expect_same_bits(
      rows,
      train_alone(
          {.num_workers = kNumWorkers, .num_steps = steps}, table_of_kills()));
  client.stop_servers();
  return done;
}

TEST(Kills, LeaveTheBitsOfAnUndisturbedRunWithTwoCopies) {
  expect_undisturbed(1, false, 8, 1500);
}

TEST(Kills, LeaveTheBitsOfAnUndisturbedRunWithALog) {
  expect_undisturbed(2, true, 8, 1500);
}

int num_failures() {
  return ::testing::UnitTest::GetInstance()
      ->current_test_info()
      ->result()
      ->total_part_count();
}

// Odd seeds have a log, the others two copies.
TEST(Kills, SoakSeedsLeaveTheBitsOfUndisturbedRuns) {
  int kills = 0;
  int runs = 0;
  int as_promised = 0;
  for (const std::uint64_t seed :
       testing::seeds_to_repeat().value_or(testing::seeds_from(100, 100))) {
    SCOPED_TRACE(str("to repeat: ARGOSY_SOAK_SEED=", seed));
    const int before = num_failures();
    kills += expect_undisturbed(
        static_cast<unsigned>(seed), seed % 2 == 1, 10, 2500);
    ++runs;
    as_promised += num_failures() == before ? 1 : 0;
  }
  std::cout << runs << " runs with " << kills << " kills: " << as_promised
            << " ended as promised, " << runs - as_promised << " lost"
            << std::endl;
}

} // namespace
} // namespace argosy::ps
