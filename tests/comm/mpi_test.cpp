// Messages and groups over MPI, under the launchers of two MPIs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/support/command.h"

namespace argosy::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct Mpi {
  std::string name; // and the end of the names of its programs
  std::string run;  // followed by the number of ranks
};

class MpiRanks : public ::testing::TestWithParam<Mpi> {
 protected:
  static CommandResult run(
      int num_ranks, const std::string& program, const std::string& arguments) {
    const Mpi& mpi = GetParam();
    return run_command(
        str(mpi.run, num_ranks, " ", program, "_", mpi.name, " ", arguments));
  }

  static void expect_good(
      int num_ranks, const std::string& program, const std::string& arguments) {
    const CommandResult result = run(num_ranks, program, arguments);
    EXPECT_TRUE(result.status.success())
        << arguments << ": " << result.status.text() << "\n"
        << result.output;
  }

  static void expect_job_ends(const std::string& program);
  static void expect_backends_pass(int num_ranks);
};

const auto kMpis = ::testing::Values(
    Mpi{"openmpi", "mpirun.openmpi --allow-run-as-root --oversubscribe -n "},
    Mpi{"mpich", "mpiexec.hydra -n "});
constexpr auto kMpiName = [](const auto& mpi) { return mpi.param.name; };

// ---- Messages ---------------------------------------------------------------

const std::string kMessages = ARGOSY_MPI_MESSAGES;

class MpiMessages : public MpiRanks {
 protected:
  static void expect_good(int num_ranks, const std::string& name) {
    for (const char* level : {" multiple", " serialized"}) {
      MpiRanks::expect_good(num_ranks, kMessages, name + level);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Mpis, MpiMessages, kMpis, kMpiName);

TEST_P(MpiMessages, ArriveByTagAndInOrder) {
  expect_good(1, "values");
  expect_good(3, "values");
}

TEST_P(MpiMessages, OfManyThreadsArrive) {
  expect_good(2, "threads");
}

TEST_P(MpiMessages, MayBeLong) {
  expect_good(2, "long");
}

TEST_P(MpiMessages, SoakMayBeLongerThanAnInt) {
  MpiRanks::expect_good(2, kMessages, "longer_than_int multiple");
}

TEST_P(MpiMessages, TooLongAreRefused) {
  expect_good(2, "too_long");
}

TEST_P(MpiMessages, EndAtTheDeadline) {
  expect_good(2, "timeout");
}

TEST_P(MpiMessages, EndWhenARankAborts) {
  expect_good(3, "abort");
}

TEST_P(MpiMessages, EndWithMpi) {
  expect_good(2, "finalize");
}

TEST_P(MpiMessages, EndWithMpiThoughARankIsLate) {
  MpiRanks::expect_good(3, kMessages, "late multiple");
}

TEST_P(MpiMessages, NeedThreads) {
  const CommandResult result = run(2, kMessages, "values funneled");
  EXPECT_FALSE(result.status.success());
  EXPECT_THAT(
      result.output,
      HasSubstr("MPI_THREAD_FUNNELED, expected at least "
                "MPI_THREAD_SERIALIZED: start it with MPI_Init_thread"));
}

bool is_running(const std::string& word) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto line = read_file(entry.path() / "cmdline");
    if (line && line->find(word) != std::string::npos) {
      return true;
    }
  }
  return false;
}

void MpiRanks::expect_job_ends(const std::string& program) {
  const auto began = std::chrono::steady_clock::now();
  const std::string word = str("multiple-", ::getpid());
  const CommandResult result = run(3, program, "killed multiple " + word);
  EXPECT_FALSE(result.status.success());
  EXPECT_THAT(result.output, HasSubstr("Killed"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 30s);
  const Deadline deadline = Deadline::after(5s);
  while (is_running(word) && !deadline.expired()) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(is_running(word)) << "of " << word << " something is left";
}

TEST_P(MpiMessages, OfADeadRankEndTheJob) {
  expect_job_ends(kMessages);
}

// ---- Groups -----------------------------------------------------------------

const std::string kGroups = ARGOSY_MPI_GROUPS;

class MpiGroups : public MpiRanks {};
INSTANTIATE_TEST_SUITE_P(Mpis, MpiGroups, kMpis, kMpiName);

TEST_P(MpiGroups, AreMadeOfCommunicators) {
  expect_good(3, kGroups, "split,part,order,adopted,beside multiple");
  expect_good(4, kGroups, "split serialized");
}

TEST_P(MpiGroups, FailAloneAndWithMpi) {
  expect_good(3, kGroups, "abort,timeout,finalize multiple");
}

TEST_P(MpiGroups, OfSeveralHostsShareMemoryWithinEach) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "namespaces are root's";
  }
  const Mpi& mpi = GetParam();
  const CommandResult result = run_command(
      str(ARGOSY_SOURCE_DIR "/tests/comm/mpi_hosts.sh ",
          kGroups,
          "_",
          mpi.name,
          " ",
          mpi.run));
  EXPECT_TRUE(result.status.success()) << result.status.text() << "\n"
                                       << result.output;
}

TEST_P(MpiGroups, OfADeadRankEndTheJob) {
  expect_job_ends(kGroups);
}

// ---- The suite of all backends ----------------------------------------------

class MpiBackends : public MpiRanks {};
INSTANTIATE_TEST_SUITE_P(Mpis, MpiBackends, kMpis, kMpiName);

void MpiRanks::expect_backends_pass(int num_ranks) {
  const CommandResult result =
      run(num_ranks,
          ARGOSY_MPI_BACKENDS,
          "--gtest_filter=-*Processes* --gtest_brief=0");
  EXPECT_TRUE(result.status.success()) << result.output;
  EXPECT_THAT(
      result.output,
      HasSubstr(str("EqualOneProcessForEverySize_mpi", num_ranks)));
}

TEST_P(MpiBackends, DoAsTheOthers) {
  expect_backends_pass(3);
}

TEST_P(MpiBackends, SoakDoAsTheOthersWithOtherNumbersOfRanks) {
  expect_backends_pass(2);
  expect_backends_pass(4);
}

} // namespace
} // namespace argosy::testing
