// Messages over MPI, under the launchers of two MPIs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  std::string name;
  std::string run;      // followed by the number of ranks
  std::string messages; // the program mpi_messages
};

const Mpi kOpenMpi = {
    "OpenMpi",
    "mpirun.openmpi --allow-run-as-root --oversubscribe -n ",
    ARGOSY_MESSAGES_OPENMPI};
const Mpi kMpich = {"Mpich", "mpiexec.hydra -n ", ARGOSY_MESSAGES_MPICH};

class MpiMessages : public ::testing::TestWithParam<Mpi> {
 protected:
  static CommandResult run(
      int num_ranks,
      const std::string& name,
      const std::string& level = "multiple") {
    const Mpi& mpi = GetParam();
    return run_command(
        str(mpi.run, num_ranks, " ", mpi.messages, " ", name, " ", level));
  }

  static void expect_good(int num_ranks, const std::string& name) {
    for (const char* level : {"multiple", "serialized"}) {
      const CommandResult result = run(num_ranks, name, level);
      EXPECT_TRUE(result.status.success())
          << name << " " << level << ": " << result.status.text() << "\n"
          << result.output;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(
    Mpis,
    MpiMessages,
    ::testing::Values(kOpenMpi, kMpich),
    [](const auto& mpi) { return mpi.param.name; });

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

TEST_P(MpiMessages, MayBeLongerThanAnInt) {
  const CommandResult result = run(2, "longer_than_int");
  EXPECT_TRUE(result.status.success()) << result.output;
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

TEST_P(MpiMessages, NeedThreads) {
  const CommandResult result = run(2, "values", "funneled");
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

TEST_P(MpiMessages, OfADeadRankEndTheJob) {
  const auto began = std::chrono::steady_clock::now();
  const std::string word = str("multiple-", ::getpid());
  const CommandResult result = run(3, "killed", "multiple " + word);
  EXPECT_FALSE(result.status.success());
  EXPECT_THAT(result.output, HasSubstr("Killed"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
  const Deadline deadline = Deadline::after(5s);
  while (is_running(word) && !deadline.expired()) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(is_running(word)) << "of " << word << " something is left";
}

} // namespace
} // namespace argosy::testing
