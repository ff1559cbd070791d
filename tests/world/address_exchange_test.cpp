#include "argosy/world/address_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/world/address_exchange_ways.h"
#include "tests/support/command.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LaunchInfo rank_of(int rank, const std::string& run_id) {
  return {
      .rank = rank,
      .size = 2,
      .address_exchange = AddressExchange::LocalFile,
      .run_id = run_id};
}

// Exchanges through files in a folder of the test's own.
class ExchangeByFile : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", dir_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TMPDIR"); }

  ExchangedAddress exchange_as(
      int rank, std::chrono::milliseconds limit, std::string run_id = "job") {
    const LaunchInfo info = rank_of(rank, run_id);
    return world::exchange_by_file(
        {info, env_, "key", "host:80", Deadline::after(limit)});
  }

  std::filesystem::path only_file() const {
    const std::filesystem::directory_iterator files(dir_.path());
    EXPECT_NE(files, std::filesystem::directory_iterator());
    return files->path();
  }

  // Nobody published for rank 1.
  void expect_nothing() {
    try {
      exchange_as(1, std::chrono::milliseconds(30));
      FAIL() << "found a value";
    } catch (const TimeoutError& error) {
      EXPECT_THAT(
          error.what(),
          AllOf(
              HasSubstr("rank 0 of 2"),
              HasSubstr("30 ms"),
              HasSubstr(".addr"),
              HasSubstr("rank 1")));
    }
  }

  TempDir dir_;
  Environment env_;
};

TEST_F(ExchangeByFile, GivesTheValueToAReaderThatCameFirst) {
  std::string got;
  std::thread reader(
      [&] { got = exchange_as(1, std::chrono::seconds(10)).value(); });
  const ExchangedAddress published = exchange_as(0, std::chrono::seconds(10));
  reader.join();
  EXPECT_EQ(got, "host:80");
  struct stat status {};
  ::stat(only_file().c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(ExchangeByFile, WithdrawsTheFileAtTheEnd) {
  {
    const ExchangedAddress published = exchange_as(0, std::chrono::seconds(1));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  expect_nothing();
}

TEST_F(ExchangeByFile, DoesNotBelieveOtherJobs) {
  const ExchangedAddress other =
      exchange_as(0, std::chrono::seconds(1), "other");
  expect_nothing();
}

TEST_F(ExchangeByFile, DoesNotBelieveTheDead) {
  const ExchangedAddress published = exchange_as(0, std::chrono::seconds(1));
  const std::string path = only_file();
  const std::string content = *read_file(path);
  // The same process id, but of a process that started at another time.
  const std::string pid = str("\n", ::getpid(), "\n");
  std::string stale = content;
  stale.insert(stale.find(pid) + pid.size(), "9");
  write_file(path, stale);
  ::chmod(path.c_str(), 0600);
  expect_nothing();
  write_file(path, content);
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(exchange_as(1, std::chrono::seconds(1)).value(), "host:80");
}

TEST_F(ExchangeByFile, DoesNotBelieveFilesThatOthersCanWrite) {
  const ExchangedAddress published = exchange_as(0, std::chrono::seconds(1));
  ::chmod(only_file().c_str(), 0666);
  expect_nothing();
}

TEST(Exchange, RefusesAWorldWithoutOne) {
  EXPECT_THROW(
      exchange_address(
          LaunchInfo{}, "a:1", Deadline::after(std::chrono::seconds(1))),
      InvalidArgument);
}

std::string rank_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() /
      "exchange_rank";
}

void expect_values(const CommandResult& result, const std::string& values) {
  EXPECT_TRUE(result.status.success()) << result.status.text();
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_THAT(
        result.output, HasSubstr(str("rank ", rank, " by ", values, "\n")));
  }
}

constexpr char kOpenMpi[] =
    "mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 ";
constexpr char kTwice[] = " 2";

TEST(ExchangeUnderOpenMpi, GoesThroughAFile) {
  expect_values(
      run_command(kOpenMpi + rank_program() + kTwice),
      "file got host-0:1000 host-0:1001");
}

TEST(ExchangeUnderOpenMpi, GoesThroughPmix) {
  expect_values(
      run_command(
          str("ARGOSY_EXCHANGE=pmix ", kOpenMpi, rank_program(), kTwice)),
      "pmix got host-0:1000 host-0:1001");
}

TEST(ExchangeUnderMpich, GoesThroughAFileAlsoUnderAShell) {
  expect_values(
      run_command("mpiexec.hydra -n 3 " + rank_program() + kTwice),
      "file got host-0:1000 host-0:1001");
  // Each rank then has a parent of its own.
  expect_values(
      run_command(
          "mpiexec.hydra -n 3 sh -c \"" + rank_program() + "; exit \\$?\""),
      "file got host-0:1000");
}

TEST(ExchangeUnderMpich, GoesThroughPmi) {
  expect_values(
      run_command("ARGOSY_EXCHANGE=pmi mpiexec.hydra -n 3 " + rank_program()),
      "pmi got host-0:1000");
  expect_values(
      run_command(
          "ARGOSY_EXCHANGE=pmi mpiexec.hydra -pmi-port -genv PMI_SIZE 3 -n 3 " +
          rank_program()),
      "pmi got host-0:1000");
}

TEST(ExchangeUnderMpich, SaysThatPmiServesOneExchange) {
  const CommandResult result = run_command(
      "ARGOSY_EXCHANGE=pmi mpiexec.hydra -n 2 " + rank_program() + kTwice);
  EXPECT_FALSE(result.status.success());
  EXPECT_THAT(result.output, HasSubstr("PMI serves one exchange per process"));
}

TEST(ExchangeUnderMpich, SaysWhenTheSizeIsUnknown) {
  const CommandResult result =
      run_command("mpiexec.hydra -pmi-port -n 2 " + rank_program());
  EXPECT_THAT(result.output, HasSubstr("without PMI_SIZE"));
}

} // namespace
} // namespace argosy::testing
