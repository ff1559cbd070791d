// `argosy plan pipeline`, run as a process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/pipeline/schedule_json.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "tests/support/command.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CommandResult plan(const std::string& arguments) {
  return run_command(str(ARGOSY_COMMAND " plan pipeline ", arguments));
}

void expect_refusal(const std::string& arguments, const std::string& expected) {
  const CommandResult result = plan(arguments);
  EXPECT_EQ(result.status.exit_code, 2) << arguments;
  EXPECT_THAT(result.output, HasSubstr(expected));
}

TEST(PlanPipeline, DrawsEverySchedule) {
  auto names = pipeline::schedule_names();
  names.emplace_back("synthesised");
  for (const std::string& name : names) {
    const CommandResult result =
        plan("--stages 3 --microbatches 4 --schedule " + name);
    EXPECT_TRUE(result.status.success());
    EXPECT_THAT(
        result.output,
        AllOf(
            HasSubstr(name + ": 3 stages, 4 microbatches"),
            HasSubstr("bubble "),
            HasSubstr("\nstage 2 .  .  F0 ")));
  }
}

TEST(PlanPipeline, TakesTimesAndACap) {
  EXPECT_THAT(
      plan("-p 2 -m 2 -s 1f1b --times 2,1,1 --message 0.5").output,
      HasSubstr("makespan 13, bubble 38.5 %"));
  EXPECT_THAT(
      plan("-p 4 -m 8 -s synthesised --memory-cap 2").output,
      HasSubstr("peak activations by stage 2 2 2 "));
}

TEST(PlanPipeline, WritesFiles) {
  const TempDir folder("plan");
  const std::string json = folder.path() / "a.json";
  const std::string svg = folder.path() / "a.svg";
  const CommandResult result =
      plan(str("-p 2 -m 4 -s interleaved --save ", json, " --svg ", svg));
  EXPECT_TRUE(result.status.success()) << result.output;
  EXPECT_EQ(
      pipeline::schedule_from_json(*read_file(json), json),
      pipeline::interleaved(2, 4, 2));
  EXPECT_THAT(*read_file(svg), HasSubstr("<svg"));
  EXPECT_EQ(plan("--load " + json).output, result.output);
}

TEST(PlanPipeline, ReadsTimesOfEachPart) {
  const TempDir folder("plan");
  const std::string path = folder.path() / "times.json";
  pipeline::PartCosts costs;
  costs.times = {{1, 1, 1}, {3, 1, 1}};
  costs.memory = {10, 20};
  write_file(path, pipeline::to_json(costs));
  EXPECT_THAT(
      plan("-p 2 -m 1 --times-file " + path).output, HasSubstr("makespan 8,"));
  expect_refusal(
      "-p 3 -m 1 --times-file " + path, "times of 2 parts, expected 3");
  expect_refusal(
      "-p 2 -m 2 --memory-cap 19 --times-file " + path,
      "keeps 20 at stage 0, --memory-cap is 19");
}

TEST(PlanPipeline, TeachesWhatItExpects) {
  expect_refusal("", "expected --stages and --microbatches, as in");
  expect_refusal("-p 0 -m 2", "--stages: Value 0 not in range");
  expect_refusal(
      "-p 2 -m 2 -s 2f2b",
      "gpipe (F-then-B), 1f1b, eager (Eager1F1B), interleaved");
  expect_refusal("-p 2 -m 2 --chunks 3", "1f1b with 3 chunks");
  expect_refusal("-p 2 -m 2 --times 1,2", "3 required");
  expect_refusal("-p 2 -m 2 --times-file none.json", "no file none.json");
  expect_refusal("-p 2 -m 2 --speed 3", "--speed");
  expect_refusal(
      "-p 4 -m 8 --memory-cap 3", "--schedule synthesised finds one");
  expect_refusal(
      "-p 4 -m 8 -s synthesised --memory-cap 0.5",
      "takes 1, the least cap that works");
  EXPECT_TRUE(plan("--help").status.success());
}

} // namespace
} // namespace argosy::testing
