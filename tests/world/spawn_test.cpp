#include "argosy/world/spawn.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "argosy/comm/spawn_results.h"
#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "tests/support/parent_temp_dir.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RankFailed failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const RankFailed& error) {
    return error;
  }
  ADD_FAILURE() << "nothing failed";
  return {-1, ""};
}

TEST(SpawnThreads, RanksKnowThemselvesBeforeTheyMeet) {
  std::mutex mutex;
  std::set<int> ranks;
  spawn(
      [&] {
        EXPECT_FALSE(is_initialized());
        EXPECT_EQ(get_world_size(), 5);
        const std::lock_guard lock(mutex);
        ranks.insert(get_rank());
      },
      5);
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3, 4}));
}

TEST(SpawnThreads, TheFirstFailureIsThrownWithItsRank) {
  const RankFailed error = failure_of([] {
    spawn(
        [] {
          if (get_rank() == 2) {
            throw std::out_of_range("no such row");
          }
        },
        4);
  });
  EXPECT_EQ(error.rank(), 2);
  EXPECT_THAT(
      error.what(),
      AllOf(
          HasSubstr("rank 2 of 4"),
          HasSubstr("std::out_of_range: no such row")));
}

// A rank that waits, in init_parallel_env() or for a key that nobody sets.
void wait_and_count_loss(std::atomic<int>& lost) {
  try {
    init_parallel_env({.timeout = 30s})->store()->get("never set");
  } catch (const PeerLost& peer) {
    EXPECT_THAT(peer.what(), HasSubstr("rank 1 failed: disk full"));
    ++lost;
    throw;
  }
}

TEST(SpawnThreads, AFailureEndsTheWaitsOfTheOthers) {
  std::atomic<int> lost{0};
  const auto began = std::chrono::steady_clock::now();
  const RankFailed error = failure_of([&] {
    spawn(
        [&] {
          if (get_rank() != 1) {
            wait_and_count_loss(lost);
          }
          init_parallel_env({.timeout = 30s});
          throw Error("disk full");
        },
        4);
  });
  EXPECT_EQ(error.rank(), 1);
  EXPECT_EQ(lost, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
}

TEST(SpawnThreads, AThreadThatDoesNotEndIsNamedAndLeftBehind) {
  auto release = std::make_shared<std::atomic<bool>>(false);
  const RankFailed error = failure_of([&] {
    spawn(
        [release] {
          if (get_rank() == 0) {
            throw Error("early");
          }
          while (!*release) {
            std::this_thread::sleep_for(1ms);
          }
        },
        2,
        {.grace = 100ms});
  });
  EXPECT_EQ(error.rank(), 0);
  EXPECT_THAT(error.what(), HasSubstr("rank 1 did not end within 100 ms"));
  *release = true;
}

TEST(SpawnThreads, ReturnsResultsInTheOrderOfRanks) {
  const auto results =
      spawn_results(
          [] {
            const auto world = init_parallel_env();
            return std::pair(world->rank(), str(world->size()));
          },
          3)
          .get();
  ASSERT_EQ(results.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(results[rank], std::pair(rank, std::string("3")));
  }
}

TEST(SpawnThreads, CanBeJoinedLater) {
  std::latch released(1);
  auto results = spawn_results(
      [&] {
        released.wait();
        return get_rank() + 10;
      },
      2,
      {.join = false});
  EXPECT_FALSE(results.join(Deadline::after(20ms)));
  released.count_down();
  EXPECT_TRUE(results.join(Deadline::after(30s)));
  EXPECT_EQ(results.get(), (std::vector{10, 11}));
  EXPECT_TRUE(results.join(Deadline::after(0s))) << "as often as one likes";
}

TEST(SpawnThreads, AFailureIsThrownWhereTheyAreJoined) {
  const auto context = spawn(
      [] {
        if (get_rank() == 1) {
          throw Error("disk full");
        }
      },
      2,
      {.join = false});
  for (int time = 0; time < 2; ++time) {
    const RankFailed error =
        failure_of([&] { context->join(Deadline::after(30s)); });
    EXPECT_EQ(error.rank(), 1);
    EXPECT_THAT(error.what(), HasSubstr("disk full"));
  }
}

TEST(Spawn, RefusesNonsense) {
  EXPECT_THROW(spawn([] {}, 0), InvalidArgument);
  EXPECT_THROW(spawn([] {}, -2), InvalidArgument);
  EXPECT_THROW(spawn(nullptr, 1), InvalidArgument);
  std::atomic<int> ranks{0};
  spawn([&] { ++ranks; }, -1);
  EXPECT_EQ(ranks, static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(SpawnProcesses, RanksMeetAndExchange) {
  testing::run_process_ranks(3, [](World& world) {
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(world.local_rank(), world.rank());
    EXPECT_EQ(world.info().source, "torchrun");
    const auto pid = std::to_string(::getpid());
    world.store()->set(
        "pid/" + std::to_string(world.rank()), {pid.begin(), pid.end()});
    std::set<std::string> pids;
    for (int other = 0; other < 3; ++other) {
      const auto value = world.store()->get("pid/" + std::to_string(other));
      pids.insert(std::string(value.begin(), value.end()));
    }
    EXPECT_EQ(pids.size(), 3u) << "each rank is a process of its own";
  });
}

TEST(SpawnProcesses, TheFirstFailureIsThrownWithItsMessage) {
  const RankFailed error = failure_of([] {
    testing::run_process_ranks(3, [](World& world) {
      if (world.rank() == 1) {
        throw InvalidArgument("[test] bad row");
      }
      ::pause(); // ended by the parent
    });
  });
  EXPECT_EQ(error.rank(), 1);
  EXPECT_THAT(
      error.what(), AllOf(HasSubstr("[test] bad row"), HasSubstr("rank 1/3")));
}

// Ranks run the test anew up to where it starts them; their failures stay.
void expect_failed_expectations(int rank, const std::function<void()>& run) {
  if (std::getenv("GTEST_FAILED_RANKS") != nullptr) {
    run();
  } else {
    EXPECT_NONFATAL_FAILURE(run(), str("expectations failed on rank ", rank));
  }
}

TEST(SpawnProcesses, AFailedExpectationInARankFailsIt) {
  const testing::ParentTempDir logs;
  expect_failed_expectations(1, [&] {
    const RankFailed error = failure_of([&] {
      testing::run_process_ranks(
          2,
          [](World& world) { EXPECT_EQ(world.rank(), 0); },
          {.log_dir = logs.path()});
    });
    EXPECT_EQ(error.rank(), 1);
  });
  EXPECT_THAT(
      read_file(logs.path() / "rank1.log").value(), HasSubstr("Which is: 1"));
}

TEST(SpawnProcesses, AKilledRankIsNamedAndStubbornOnesAreEnded) {
  const auto began = std::chrono::steady_clock::now();
  const RankFailed error = failure_of([] {
    testing::run_process_ranks(
        2,
        [](World& world) {
          ::signal(SIGTERM, SIG_IGN);
          if (world.rank() == 1) {
            ::kill(::getpid(), SIGKILL);
          }
          for (;;) {
            ::pause();
          }
        },
        {.grace = 300ms});
  });
  EXPECT_EQ(error.rank(), 1);
  EXPECT_THAT(error.what(), HasSubstr("SIGKILL"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 15s);
}

// The arguments of this program that run the current test alone.
std::vector<std::string> arguments_of_this_test() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return {str("--gtest_filter=", test->test_suite_name(), ".", test->name())};
}

TEST(SpawnProcesses, ReturnResultsAndCanBeJoinedLater) {
  std::optional<SpawnResults<std::vector<int>>> later;
  // The thread that starts them may end before they do.
  std::thread starts([&] {
    later = spawn_results(
        [] {
          const auto world = init_parallel_env({.timeout = 60s});
          return std::vector{world->rank(), static_cast<int>(::getpid())};
        },
        2,
        {.ranks = RankKind::Process,
         .join = false,
         .arguments = arguments_of_this_test()});
  });
  starts.join();
  SpawnResults<std::vector<int>>& results = later.value();
  EXPECT_FALSE(results.join(Deadline::after(1ms))) << "they just start";
  EXPECT_TRUE(results.join(Deadline::after(60s)));
  const auto values = results.get();
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].at(0), 0);
  EXPECT_EQ(values[1].at(0), 1);
  EXPECT_NE(values[0].at(1), values[1].at(1)) << "processes of their own";
}

// Run by the test after it as a program of its own.
TEST(SpawnProcesses, DISABLED_UseWhatAnEarlierCallReturned) {
  const SpawnOptions processes{.ranks = RankKind::Process};
  const auto first =
      spawn_results([] { return 10 * (get_rank() + 1); }, 2, processes).get();
  ASSERT_EQ(first, (std::vector{10, 20})) << "in the ranks of the second, too";
  const auto second =
      spawn_results([&] { return first.at(1) + get_rank(); }, 2, processes)
          .get();
  EXPECT_EQ(second, (std::vector{20, 21}));
}

// This program again, with one of its tests.
pid_t start_test(const std::string& filter) {
  std::vector<std::string> words = {
      "spawn_test",
      str("--gtest_filter=", filter),
      "--gtest_also_run_disabled_tests"};
  std::vector<char*> argv = {
      words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = -1;
  EXPECT_EQ(
      ::posix_spawn(
          &child, "/proc/self/exe", nullptr, nullptr, argv.data(), environ),
      0);
  return child;
}

TEST(SpawnProcesses, OfALaterCallKnowWhatAnEarlierReturned) {
  int status = -1;
  const pid_t child = start_test("*DISABLED_UseWhatAnEarlierCallReturned");
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SpawnProcesses, ThatExitBeforeTheyReturnAreNamed) {
  const RankFailed error = failure_of([] {
    spawn_results(
        [] {
          if (get_rank() == 1) {
            ::_exit(0);
          }
          return 0;
        },
        2,
        {.ranks = RankKind::Process, .arguments = arguments_of_this_test()});
  });
  EXPECT_EQ(error.rank(), 1);
  EXPECT_THAT(
      error.what(), HasSubstr("exit code 0 before the function returned"));
}

// Run by the next test as a program of its own: ranks that write their pids
// into the folder that a variable names, and stay.
TEST(SpawnProcesses, DISABLED_Stay) {
  testing::run_process_ranks(2, [](World& world) {
    const std::filesystem::path folder = std::getenv("SPAWN_TEST_FOLDER");
    write_file(folder / str(world.rank()), str(::getpid()));
    ::pause();
  });
}

std::vector<pid_t> pids_in(const std::filesystem::path& folder) {
  std::vector<pid_t> pids;
  for (const char* rank : {"0", "1"}) {
    if (const auto text = read_file(folder / rank)) {
      pids.push_back(std::stoi(*text));
    }
  }
  return pids;
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = Deadline::after(30s);
  while (!condition() && !deadline.expired()) {
    std::this_thread::sleep_for(10ms);
  }
  return condition();
}

TEST(SpawnProcesses, RanksDoNotOutliveAKilledParent) {
  const TempDir folder;
  ::setenv("SPAWN_TEST_FOLDER", folder.path().c_str(), 1);
  // What the parent can no longer remove goes with the folder.
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  const pid_t parent = start_test("*DISABLED_Stay");
  ::unsetenv("TMPDIR");
  ASSERT_TRUE(eventually([&] { return pids_in(folder.path()).size() == 2; }));
  ::kill(parent, SIGKILL);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  for (const pid_t pid : pids_in(folder.path())) {
    EXPECT_TRUE(eventually([&] {
      // Gone, or dead and not yet reaped by whoever inherited it.
      const auto stat = read_file(str("/proc/", pid, "/stat"));
      return !stat || stat->find(") Z ") != std::string::npos;
    })) << pid;
  }
}

// Rank 1 dies once rank 0 has noted its failure.
void fail_on_rank_0_and_die_on_rank_1(World& world) {
  if (world.rank() == 0) {
    ADD_FAILURE() << "on purpose";
    return;
  }
  const std::filesystem::path notes = std::getenv("GTEST_FAILED_RANKS");
  const Deadline limit = Deadline::after(20s);
  while (!std::filesystem::exists(notes / "0") && !limit.expired()) {
    std::this_thread::sleep_for(1ms);
  }
  std::raise(SIGKILL);
}

// A test that kills a rank expects RankFailed: what survivors found must not
// get lost in that.
TEST(SpawnProcesses, AnExpectationThatFailsBesideADeathFailsTheTest) {
  expect_failed_expectations(0, [] {
    EXPECT_THROW(
        testing::run_process_ranks(2, fail_on_rank_0_and_die_on_rank_1),
        RankFailed);
  });
}

} // namespace
} // namespace argosy
