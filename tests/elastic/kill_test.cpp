// Ranks of an elastic job die under the real launcher. What each rank ends with
// is compared with the run in which nobody dies, bit for bit: parameters, the
// optimizer's states, running statistics, samples used, losses, random numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "tests/launch/argosy_process.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 3;

struct Case {
  const char* name;
  std::string kills = "-"; // see job.cpp
  std::string fault{};     // for ARGOSY_FAULT
  std::string fault_rank{};
  int restarts = 1; // that the launcher must need
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

ProcessSetup setup_of(const Case& each, const TempDir& folder) {
  ProcessSetup setup;
  setup.env["OMP_NUM_THREADS"] = "1";
  if (!each.fault.empty()) {
    setup.env["ARGOSY_FAULT"] = each.fault;
    setup.env["ARGOSY_FAULT_RANK"] = each.fault_rank;
    setup.env["ARGOSY_FAULT_ONCE"] = (folder.path() / "failed").string();
  }
  return setup;
}

std::vector<std::string> words_of(
    const std::string& kills, const TempDir& folder, int max_restarts) {
  return {
      "run",
      "-n",
      str(kRanks),
      "--restart-policy",
      "worker",
      "--max-restarts",
      str(max_restarts),
      ARGOSY_ELASTIC_JOB,
      folder.path().string(),
      kills};
}

std::vector<std::string> ends_in(const TempDir& folder) {
  std::vector<std::string> ends;
  for (int rank = 0; rank < kRanks; ++rank) {
    ends.push_back(
        read_file(folder.path() / str("end.", rank)).value_or("none"));
  }
  return ends;
}

// Of the run in which nobody dies.
const std::vector<std::string>& undisturbed() {
  static const std::vector<std::string> ends = [] {
    const TempDir folder;
    ArgosyProcess job(words_of("-", folder, 0), setup_of({}, folder));
    EXPECT_EQ(job.wait(), 0) << job.err();
    return ends_in(folder);
  }();
  return ends;
}

void expect_no_change(const Case& each) {
  const TempDir folder;
  ArgosyProcess job(words_of(each.kills, folder, 8), setup_of(each, folder));
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(ends_in(folder), undisturbed()) << job.err();
  const auto count = [](int restarts) { return str("(", restarts, " of 8)"); };
  if (each.restarts > 0) {
    EXPECT_THAT(job.err(), HasSubstr(count(each.restarts)));
  }
  EXPECT_THAT(job.err(), Not(HasSubstr(count(each.restarts + 1))));
}

std::string name_of(const ::testing::TestParamInfo<Case>& of) {
  return of.param.name;
}

class ElasticKill : public ::testing::TestWithParam<Case> {};

TEST_P(ElasticKill, ChangesNothing) {
  expect_no_change(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Often,
    ElasticKill,
    ::testing::Values(
        Case{.name = "InTheFirstCompute", .kills = "1.0.1"},
        Case{
            .name = "OneAfterTheOther",
            .kills = "1.0.2,2.0.3,0.0.5",
            .restarts = 3},
        Case{.name = "TwoAtOnce", .kills = "0.0.3,2.0.3", .restarts = 2},
        Case{
            .name = "BeforeTheReduction",
            .fault = "data_parallel.bucket:kill:3",
            .fault_rank = "1"},
        Case{
            .name = "AfterTheAgreement",
            .fault = "elastic.agreed:kill:4",
            .fault_rank = "2"},
        Case{
            .name = "AfterTheLastUpdate",
            .fault = "elastic.applied:kill:6",
            .fault_rank = "0"},
        // Rank 2 has not applied step 3 when rank 0 dies in step 4.
        Case{
            .name = "WhileOneIsAStepBehind",
            .kills = "0.0.4",
            .fault = "elastic.agreed:fail:4",
            .fault_rank = "2"},
        Case{
            .name = "WhileItGivesItsState",
            .kills = "1.0.3",
            .fault = "elastic.give:kill:1",
            .fault_rank = "0",
            .restarts = 2}),
    name_of);

class RareKill : public ::testing::TestWithParam<Case> {};

TEST_P(RareKill, SoakChangesNothing) {
  expect_no_change(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Rarely,
    RareKill,
    ::testing::Values(
        Case{.name = "InCompute", .kills = "1.0.3"},
        Case{.name = "RankZero", .kills = "0.0.4"},
        Case{.name = "AllAtOnce", .kills = "0.0.3,1.0.3,2.0.3", .restarts = 3},
        Case{.name = "TwiceInARow", .kills = "1.0.3,1.1.3", .restarts = 2},
        Case{.name = "InTheLastStep", .kills = "2.0.6"},
        Case{
            .name = "NobodyButOneIsAStepBehind",
            .fault = "elastic.agreed:fail:4",
            .fault_rank = "0",
            .restarts = 0},
        Case{
            .name = "BeforeTheAgreement",
            .fault = "elastic.agree:kill:4",
            .fault_rank = "0"},
        Case{
            .name = "AfterTheUpdate",
            .fault = "elastic.applied:kill:3",
            .fault_rank = "1"},
        Case{
            .name = "BeforeItMeetsTheOthersAgain",
            .kills = "1.0.3",
            .fault = "elastic.meet:kill:2",
            .fault_rank = "0",
            .restarts = 2},
        Case{
            .name = "WhenItHasComeAgain",
            .kills = "1.0.3",
            .fault = "elastic.came:kill:2",
            .fault_rank = "2",
            .restarts = 2}),
    name_of);

TEST(Elastic, NamesARankThatDiesAtTheSameStepAgainAndAgain) {
  const TempDir folder;
  ArgosyProcess job(words_of("1.all.3", folder, 100), setup_of({}, folder));
  EXPECT_EQ(job.wait(), 1) << job.err();
  EXPECT_THAT(
      job.err(),
      AllOf(
          HasSubstr("rank 1 died 3 times in step 3"),
          HasSubstr("(3 of 100)"),
          Not(HasSubstr("(4 of 100)"))));
}

TEST(Elastic, NamesAStepThatFailsThoughNobodyDies) {
  const TempDir folder;
  ArgosyProcess job(words_of("timeout", folder, 100), setup_of({}, folder));
  EXPECT_EQ(job.wait(), 1) << job.err();
  EXPECT_THAT(
      job.err(),
      AllOf(
          HasSubstr("step 3 failed 3 times though no rank died"),
          HasSubstr("no batch came"),
          Not(HasSubstr("starting it again"))));
}

TEST(Elastic, EndsWithTheLimitOfRestarts) {
  const TempDir folder;
  ArgosyProcess job(words_of("1.0.2,2.0.3", folder, 1), setup_of({}, folder));
  EXPECT_EQ(job.wait(), 137) << job.err();
  EXPECT_THAT(
      job.err(),
      HasSubstr("started again 1 times, of 1 allowed, after rank 1: killed by "
                "signal 9 (SIGKILL)"));
}

TEST(Elastic, RefusesAStoreThatEndsWithRankZero) {
  const TempDir folder;
  ArgosyProcess job(
      {"run", "-n", "2", ARGOSY_ELASTIC_JOB, folder.path().string(), "-"});
  EXPECT_NE(job.wait(), 0);
  EXPECT_THAT(
      job.err(),
      HasSubstr("expected one that the launcher serves: argosy run "
                "--restart-policy worker"));
}

} // namespace
} // namespace argosy::testing
