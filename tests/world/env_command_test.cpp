// `argosy env`, run as a process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "tests/support/command.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CommandResult run_env(
    const std::string& variables, const std::string& arguments = "") {
  return run_command(
      str("env -i ", variables, " ", ARGOSY_COMMAND, " env ", arguments));
}

TEST(EnvCommand, ShowsAWorldOfOne) {
  const CommandResult result = run_env("");
  EXPECT_TRUE(result.status.success());
  EXPECT_THAT(
      result.output,
      AllOf(
          HasSubstr("torchrun           absent    TORCHELASTIC_RUN_ID not set"),
          HasSubstr("You are worker 0/1, a world of one.")));
}

TEST(EnvCommand, ShowsWhatItAdopts) {
  const CommandResult result = run_env(
      "RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=80 "
      "PADDLE_TRAINER_ID=1 PADDLE_TRAINERS_NUM=4 PADDLE_MASTER=h:80");
  EXPECT_TRUE(result.status.success());
  EXPECT_THAT(
      result.output,
      AllOf(
          HasSubstr("env                adopted   RANK=1 WORLD_SIZE=4"),
          HasSubstr("paddle             complete  PADDLE_TRAINER_ID=1"),
          HasSubstr("You are worker 1/4, as env says."),
          HasSubstr("tcp://h:80")));
}

TEST(EnvCommand, EndsWithTwoWhereAProgramWouldRefuse) {
  const CommandResult result = run_env("RANK=1");
  EXPECT_EQ(result.status.exit_code, 2);
  EXPECT_THAT(
      result.output,
      AllOf(
          HasSubstr("env                partial   RANK=1 without WORLD_SIZE"),
          HasSubstr("argosy: [world.adopt] env: RANK=1 without WORLD_SIZE")));
}

TEST(EnvCommand, PrintsJson) {
  const CommandResult good = run_env(
      "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", "--json");
  const auto document = nlohmann::json::parse(good.output);
  EXPECT_EQ(document["adopted"]["source"], "mpich");
  EXPECT_EQ(document["adopted"]["exchange"], "file");
  EXPECT_GT(document["sources"].size(), 10u);
  const CommandResult bad =
      run_env("RANK=x WORLD_SIZE=2", "--json 2>/dev/null");
  EXPECT_EQ(bad.status.exit_code, 2);
  EXPECT_THAT(
      nlohmann::json::parse(bad.output)["error"].get<std::string>(),
      HasSubstr("RANK=x"));
}

TEST(EnvCommand, HelpsAndRefusesUnknownOptions) {
  EXPECT_THAT(run_env("", "--help").output, HasSubstr("--json"));
  EXPECT_TRUE(run_env("", "--help").status.success());
  EXPECT_EQ(run_env("", "--jsn").status.exit_code, 2);
}

} // namespace
} // namespace argosy::testing
