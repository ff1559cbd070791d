// `argosy run --restart-policy worker`: a worker that dies is started again
// alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "argosy/common/text.h"
#include "argosy/launch/worker_restarts.h"
#include "tests/launch/argosy_process.h"
#include "tests/launch/job.h"

namespace argosy::testing {
namespace {

using launch::WorkerRestarts;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr ProcessStatus kKilled{.signal = SIGKILL};
constexpr ProcessStatus kFailed{.exit_code = 1};

WorkerRestarts::TimePoint at(int ms) {
  return WorkerRestarts::TimePoint(milliseconds(ms));
}

// The flags of a job of so many workers, which may restart so often.
Words flags(int num_workers, int max_restarts) {
  return {
      "-n",
      str(num_workers),
      "--restart-policy",
      "worker",
      "--max-restarts",
      str(max_restarts)};
}

TEST(WorkerRestarts, WaitLongerForAWorkerThatDiesYoungAgain) {
  WorkerRestarts restarts(100);
  std::vector<int> pauses;
  for (int i = 0; i < 5; ++i) {
    pauses.push_back(static_cast<int>(
        restarts.on_death(1, kKilled, at(0), at(10))->count()));
  }
  EXPECT_THAT(pauses, ElementsAre(0, 100, 200, 400, 800));
  // Another rank is another matter, and a long life makes up for it.
  EXPECT_EQ(restarts.on_death(2, kKilled, at(0), at(10)), milliseconds(0));
  EXPECT_EQ(restarts.on_death(1, kKilled, at(0), at(5000)), milliseconds(0));
  EXPECT_EQ(restarts.on_death(1, kKilled, at(0), at(10)), milliseconds(0));
  EXPECT_EQ(restarts.on_death(1, kKilled, at(0), at(10)), milliseconds(100));
  for (int i = 0; i < 40; ++i) {
    restarts.on_death(1, kKilled, at(0), at(10));
  }
  EXPECT_EQ(restarts.on_death(1, kKilled, at(0), at(10)), milliseconds(10'000));
}

TEST(WorkerRestarts, AreCountedByRankAndCause) {
  WorkerRestarts restarts(3);
  EXPECT_EQ(restarts.causes_text(), "");
  EXPECT_TRUE(restarts.on_death(4, kKilled, at(0), at(1)));
  EXPECT_TRUE(restarts.on_death(4, kKilled, at(0), at(1)));
  EXPECT_TRUE(restarts.on_death(2, kFailed, at(0), at(1)));
  EXPECT_FALSE(restarts.on_death(2, kFailed, at(0), at(1)));
  EXPECT_EQ(restarts.count(4), 2);
  EXPECT_EQ(restarts.count(2), 1);
  EXPECT_EQ(restarts.total(), 3);
  EXPECT_EQ(
      restarts.causes_text(),
      "rank 2: exit code 1; rank 4: killed by signal 9 (SIGKILL) (2 times)");
}

// Rank 1 dies twice, rank 0 waits for its third life and sees it alone change.
TEST(WorkerRestart, StartsTheDeadAloneWithItsIdentity) {
  ArgosyProcess job(run_sh(
      flags(2, 5),
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK $ARGOSY_WORKER_RESTARTS "
      "$TORCHELASTIC_RESTART_COUNT\n"
      "[ $RANK = 1 ] && [ $ARGOSY_WORKER_RESTARTS = 0 ] && kill -9 $$\n"
      "[ $RANK = 1 ] && [ $ARGOSY_WORKER_RESTARTS = 1 ] && exit 3\n"
      "[ $RANK = 1 ] && touch third\n"
      "until [ -e third ]; do sleep 0.01; done"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(
      sorted_lines(job.out()),
      ElementsAre("0/2 0 0 0", "1/2 1 0 0", "1/2 1 1 0", "1/2 1 2 0"));
  EXPECT_THAT(
      job.err(),
      AllOf(
          HasSubstr("killed by signal 9 (SIGKILL); starting it again (1 of 5)"),
          HasSubstr("exit code 3; starting it again (2 of 5)"),
          Not(HasSubstr("FAILED"))));
}

TEST(WorkerRestart, EndsTheJobWhenNoneIsLeft) {
  ArgosyProcess job(run_sh(
      flags(3, 2),
      "[ $RANK = 1 ] || exec sleep 60; "
      "exit $((5 + ARGOSY_WORKER_RESTARTS))"));
  EXPECT_EQ(job.wait(), 7);
  EXPECT_THAT(
      job.err(),
      AllOf(
          HasSubstr("ending the other 2"),
          HasSubstr("Root Cause (first observed failure):"),
          HasSubstr("exitcode  : 7 (pid:"),
          Not(HasSubstr("Other Failures")),
          HasSubstr("started again 2 times, of 2 allowed, after rank 1: exit "
                    "code 5, exit code 6")));
}

TEST(WorkerRestart, KeepsWhatTheDeadWorkerPrinted) {
  Words with_logs = flags(1, 1);
  with_logs.insert(with_logs.end(), {"--log-dir", "logs", "--rdzv-id", "job"});
  ArgosyProcess job(run_sh(
      with_logs,
      "echo life $ARGOSY_WORKER_RESTARTS; exit $((1 - "
      "ARGOSY_WORKER_RESTARTS))"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  const std::filesystem::directory_iterator runs(job.folder() / "logs");
  EXPECT_EQ(
      read_file(runs->path() / "attempt_0/0/stdout.log"), "life 0\nlife 1\n");
}

// What a worker has started must not take part beside its successor.
TEST(WorkerRestart, EndsWhatTheDeadWorkerHadStarted) {
  ArgosyProcess job(run_sh(
      flags(1, 1),
      "[ $ARGOSY_WORKER_RESTARTS = 1 ] && exec sleep 60\n"
      "sleep 60 & echo $! > pid.child; echo $$ > pid.own; kill -9 $$"));
  const auto pids = await_pids(job.folder(), 2);
  EXPECT_EQ(count_alive(pids, 5000), 0);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
}

// A pause between restarts must not hold up the end.
TEST(WorkerRestart, EndsByASignalWhileNobodyRuns) {
  ArgosyProcess job(run_sh(flags(1, 1000), "echo x >> deaths; exit 1"));
  EXPECT_TRUE(eventually([&] {
    return read_file(job.folder() / "deaths").value_or("").size() >= 10;
  }));
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
}

TEST(WorkerRestart, StopsWhenAWorkerSaysThatItIsOfNoUse) {
  ArgosyProcess job(run_sh(
      flags(2, 9),
      "[ $RANK = 1 ] || exec sleep 60; mkdir -p $ARGOSY_FLIGHT_DIR; touch "
      "$ARGOSY_FLIGHT_DIR/no_restart; exit 6"));
  EXPECT_EQ(job.wait(), 6) << job.err();
}

// The node that serves the store of the ranks is not that of the dead worker.
TEST(WorkerRestart, HappensOnOneNodeOfTwo) {
  Job job;
  Words common = flags(1, 3);
  common.insert(common.end(), {"--nnodes", "2"});
  TempDir shared;
  const std::string third = shared.path() / "third";
  const std::string script =
      str("echo $ARGOSY_STORE $ARGOSY_WORKER_RESTARTS\n"
          "[ $RANK = 1 ] && [ $ARGOSY_WORKER_RESTARTS != 2 ] && kill -9 $$\n"
          "[ $RANK = 1 ] && touch ",
          third,
          "\nuntil [ -e ",
          third,
          " ]; do sleep 0.01; done");
  ArgosyProcess& first = job.start(common, script);
  ArgosyProcess& second = job.start(common, script);
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(
      split(trim(first.out()), '\n').size() +
          split(trim(second.out()), '\n').size(),
      4u);
}

// The launcher serves the ranks' store at the master's place: it answers the
// successor of worker 0, and worker 1 while there is no worker 0.
TEST(WorkerRestart, TheStoreOutlivesWorkerZero) {
  ArgosyProcess job(run_sh(
      flags(2, 1),
      "if [ $RANK$ARGOSY_WORKER_RESTARTS = 00 ]; then\n"
      "  touch died; kill -9 $$\n"
      "fi\n"
      "until [ -e died ]; do sleep 0.01; done\n"
      "exec python3 -c 'import os, socket\n"
      "place = os.environ[\"MASTER_ADDR\"], int(os.environ[\"MASTER_PORT\"])\n"
      "socket.create_connection(place, 10)\n"
      "print(os.environ[\"ARGOSY_STORE\"] == \"tcp://%s:%d?serve=no\" % "
      "place)'"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.out(), "True\nTrue\n");
}

} // namespace
} // namespace argosy::testing
