// What the launcher reads from and shows to people: summaries, hostfiles,
// records of nodes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "argosy/common/error.h"
#include "argosy/common/error_file.h"
#include "argosy/common/file.h"
#include "argosy/common/flight_file.h"
#include "argosy/launch/hosts.h"
#include "argosy/launch/node_record.h"
#include "argosy/launch/shell.h"
#include "argosy/launch/summary.h"
#include "tests/store/expect.h"

namespace argosy::launch {
namespace {

using argosy::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::chrono::system_clock::time_point at(int seconds) {
  return std::chrono::system_clock::time_point(std::chrono::seconds(seconds));
}

// Ranks from `first` on, whose error files are numbered in the folder.
JobPlan plan_of(const TempDir& folder, int num_workers, int first = 0) {
  JobPlan plan;
  plan.workers.resize(static_cast<std::size_t>(num_workers));
  for (int i = 0; i < num_workers; ++i) {
    plan.workers[i].identity.rank = first + i;
    plan.workers[i].error_file = folder.path() / std::to_string(i);
  }
  return plan;
}

TEST(Summary, PutsTheRootCauseFirst) {
  const TempDir folder;
  JobPlan plan = plan_of(folder, 3, 10);
  // Rank 12 was seen last, but says that it failed first.
  write_error_file(
      folder.path() / "2", {.message = "E: first", .timestamp = 90});
  Outcome outcome{.ending = Ending::Failed, .signal = 0, .results = {}};
  outcome.results = {
      {.pid = 1, .status = {.exit_code = 3}, .ended = at(100)},
      {.pid = 2, .status = {.signal = 15}, .ended = at(101), .stopped = true},
      {.pid = 3, .status = {.exit_code = 1}, .ended = at(102)}};
  const auto failures = collect_failures(plan, outcome);
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[0].rank, 12);
  EXPECT_EQ(failures[1].rank, 10);
  const std::string text = summary_text("./train", failures);
  EXPECT_THAT(text, HasSubstr("./train FAILED"));
  EXPECT_THAT(text, HasSubstr("exitcode  : 1 (pid: 3)"));
  EXPECT_THAT(text, HasSubstr("message   : E: first"));
  EXPECT_THAT(text, Not(HasSubstr("rank      : 11")));
  EXPECT_LT(text.find("Root Cause"), text.find("Other Failures"));
}

// The follower's file, as torch writes it, has whole seconds; the cause was
// killed and left none, or says it to the nanosecond.
TEST(Summary, PutsTheCauseBeforeAFollowerOfTheSameSecond) {
  using namespace std::chrono_literals;
  for (const bool killed : {true, false}) {
    const TempDir folder;
    JobPlan plan = plan_of(folder, 2);
    write_error_file(
        folder.path() / "0", {.message = "lost rank 1", .timestamp = 100});
    Outcome outcome{.ending = Ending::Failed, .signal = 0, .results = {}};
    outcome.results = {
        {.pid = 1, .status = {.exit_code = 1}, .ended = at(100) + 500ms},
        {.pid = 2, .status = {.signal = 9}, .ended = at(100) + 300ms}};
    if (!killed) {
      // It ends last, because it has much to clean up.
      outcome.results[1] = {
          .pid = 2, .status = {.exit_code = 1}, .ended = at(100) + 900ms};
      write_error_file(
          folder.path() / "1",
          {.message = "cause",
           .timestamp = 100,
           .timestamp_ns = 100'200'000'000});
      write_error_file(
          folder.path() / "0",
          {.message = "lost rank 1",
           .timestamp = 100,
           .timestamp_ns = 100'200'000'900});
    }
    EXPECT_EQ(collect_failures(plan, outcome)[0].rank, 1) << killed;
  }
}

// Rank 0 failed first, but cleans up for so long that rank 1, which lost it,
// ends before, and the launcher stops rank 0.
TEST(Summary, CountsAWorkerThatFailedBeforeItWasStopped) {
  const TempDir folder;
  JobPlan plan = plan_of(folder, 3);
  const auto report = [&](int rank, const char* text, std::int64_t seconds) {
    write_error_file(
        folder.path() / std::to_string(rank),
        {.message = text,
         .timestamp = seconds,
         .timestamp_ns = seconds * 1'000'000'000});
  };
  report(0, "cause", 100);
  report(1, "lost the store", 101);
  report(2, "told to stop", 103);
  Outcome outcome{.ending = Ending::Failed, .signal = 0, .results = {}};
  outcome.results = {
      {.pid = 1, .status = {.exit_code = 1}, .ended = at(104), .stopped = true},
      {.pid = 2, .status = {.exit_code = 1}, .ended = at(102)},
      {.pid = 3, .status = {.signal = 15}, .ended = at(104), .stopped = true}};
  const auto failures = collect_failures(plan, outcome);
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[0].rank, 0);
  EXPECT_EQ(failures[1].rank, 1);
}

// The launcher heard of the death of rank 1 after rank 0 had said so.
TEST(Summary, PutsADeathBeforeTheErrorThatBlamesIt) {
  const TempDir folder;
  JobPlan plan = plan_of(folder, 2);
  write_error_file(
      folder.path() / "0",
      {.message = "[comm.barrier] rank 1 of group 0 died during barrier",
       .timestamp = 100,
       .timestamp_ns = 100'200'000'000});
  Outcome outcome{.ending = Ending::Failed, .signal = 0, .results = {}};
  outcome.results = {
      {.pid = 1, .status = {.exit_code = 1}, .ended = at(101)},
      {.pid = 2, .status = {.signal = 9}, .ended = at(101)}};
  EXPECT_EQ(collect_failures(plan, outcome)[0].rank, 1);
}

TEST(Summary, NamesWhoLeftEarlyAndNotItsVictim) {
  const TempDir folder;
  JobPlan plan = plan_of(folder, 3);
  plan.flight_dir = folder.path();
  Outcome outcome{.ending = Ending::Failed, .signal = 0, .results = {}};
  outcome.results = {
      {.pid = 1, .status = {.exit_code = 7}, .ended = at(102)},
      {.pid = 2, .status = {}, .ended = at(101)},
      {.pid = 3, .status = {}, .ended = at(100)}};
  const std::string error =
      "[comm.barrier] rank 1 of group 0 has left with exit code 0 during x";
  // Nothing says that the failure has to do with those that succeeded.
  EXPECT_EQ(collect_failures(plan, outcome)[0].rank, 0);
  // The victim may not have recorded its error; its flight record says it too.
  write_file(
      folder.path() / flight_record_name(0), "{\"reason\": \"" + error + "\"}");
  for (const bool recorded : {false, true}) {
    if (recorded) {
      write_error_file(folder.path() / "0", {.message = error});
    }
    const auto failures = collect_failures(plan, outcome);
    ASSERT_EQ(failures.size(), 2u);
    EXPECT_EQ(failures[0].rank, 1);
    EXPECT_THAT(
        failures[0].message,
        HasSubstr("left with exit code 0, but rank 0 still waited for it"));
    EXPECT_EQ(failures[1].rank, 0);
  }
}

TEST(Summary, SaysHowToRecordAnError) {
  JobPlan plan;
  plan.workers.resize(3);
  Outcome outcome{.ending = Ending::Failed, .signal = 0, .results = {}};
  outcome.results = {
      {.pid = 1, .status = {.exit_code = 1}, .ended = at(100)},
      {.pid = 2, .status = {.signal = SIGABRT}, .ended = at(101)},
      {.pid = 3, .status = {.signal = SIGKILL}, .ended = at(102)}};
  const auto failures = collect_failures(plan, outcome);
  ASSERT_EQ(failures.size(), 3u);
  EXPECT_THAT(failures[0].message, HasSubstr("return argosy::record("));
  EXPECT_THAT(failures[1].message, HasSubstr("return argosy::record("));
  // It would not have helped.
  EXPECT_THAT(failures[2].message, Not(HasSubstr("record(")));
}

TEST(Summary, ShowsTheEndOfStderr) {
  const TempDir folder;
  const auto path = folder.path() / "log";
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += str("line ", i, "\n");
  }
  write_file(path, text);
  EXPECT_EQ(tail_of(path, 2), "line 4998\nline 4999\n");
  write_file(path, "one\ntwo");
  EXPECT_EQ(tail_of(path, 1), "two");
  EXPECT_EQ(tail_of(path, 9), "one\ntwo");
  EXPECT_EQ(tail_of(folder.path() / "none", 9), "");
}

TEST(Hostfile, TakesBothForms) {
  EXPECT_THAT(
      parse_hostfile(
          "# all\nnode0 slots=4 max_slots=8\nnode1:2 # two\n\n fe80::1\n", "f"),
      ElementsAre(
          HostSlots{"node0", 4}, HostSlots{"node1", 2}, HostSlots{"fe80::1"}));
  const auto refusal = [](const char* text) {
    return message_of<InvalidArgument>([&] { parse_hostfile(text, "f"); });
  };
  EXPECT_THAT(refusal("a\nb slots=x"), HasSubstr("f:2: x"));
  EXPECT_THAT(refusal("a b"), HasSubstr("f:1"));
  EXPECT_THAT(refusal("# none"), HasSubstr("no host"));
  EXPECT_THAT(
      refusal("a\n-oProxyCommand=x"),
      HasSubstr("f:2: \"-oProxyCommand=x\" is not a host"));
  EXPECT_THAT(refusal(":3"), HasSubstr("f:1: \":3\" is not a host"));
}

TEST(RemoteCommand, CarriesFlagsVariablesAndProgram) {
  CommandLine line;
  line.values = {
      {"hostfile", "h"}, {"max-restarts", "2"}, {"nproc-per-node", "3"}};
  line.env = {"A=b c"};
  line.program = {"./train", "it's"};
  RemoteNode node;
  node.host = {"n1", 0};
  node.node_rank = 1;
  node.num_nodes = 2;
  node.endpoint = "10.0.0.9:5";
  node.run_id = "r";
  node.command = "/opt/argosy";
  node.folder = "/my dir";
  // What is secret goes another way: all users of a host see command lines.
  const Environment environment(
      {{"OMP_NUM_THREADS", "2"},
       {"HOME", "/h"},
       {"ARGOSY_SECRET", "s"},
       {"ARGOSY_SECRET_FILE", "f"},
       {"ARGOSY_ETCD_PASSWORD", "p"}});
  EXPECT_EQ(
      remote_command(line, node, environment),
      "cd '/my dir' && exec env OMP_NUM_THREADS=2 /opt/argosy run "
      "--exit-with-stdin --secret-stdin --nnodes=2 --node-rank=1 "
      "--nproc-per-node=3 "
      "--rdzv-endpoint=tcp://10.0.0.9:5 --rdzv-id=r --max-restarts=2 "
      "'--env=A=b c' -- ./train 'it'\\''s'");
}

NodeRecord record(const std::string& host, std::optional<int> rank) {
  NodeRecord made{.node = {.host = host, .address = "1"}};
  made.requested_rank = rank;
  made.min_nodes = made.max_nodes = 3;
  return made;
}

TEST(NodeRecord, OrdersByRequestThenArrival) {
  const Arrivals arrivals = {
      {1, record("a", {})}, {2, record("b", 0)}, {5, record("c", {})}};
  EXPECT_THAT(order_nodes(arrivals), ElementsAre(2, 1, 5));
  EXPECT_FALSE(find_conflict(arrivals));
  EXPECT_EQ(parse_arrivals(to_json(arrivals)), arrivals);
  EXPECT_THROW(parse_arrivals("{\"1\": {}}"), StoreError);
}

TEST(NodeRecord, FindsConflicts) {
  EXPECT_EQ(
      find_conflict({{1, record("a", 2)}, {2, record("b", 2)}}),
      "--node-rank 2 is given to two nodes: a (1) and b (1)");
  NodeRecord other = record("b", {});
  other.max_nodes = 4;
  EXPECT_EQ(
      find_conflict({{1, record("a", {})}, {2, other}}),
      "--nnodes differs: a (1) expects 3 nodes, b (1) 4");
  EXPECT_EQ(
      missing_nodes_text({{1, record("a", 1)}}, 3, "30 s"),
      "1 of 3 nodes came within 30 s: a (1); missing node ranks: 0, 2");
}

TEST(NodeRecord, CarriesFailures) {
  const Failure failure{
      .host = "h",
      .role = "default",
      .rank = 3,
      .local_rank = 1,
      .pid = 9,
      .status = {.signal = 11},
      .time = at(77),
      .message = "m"};
  EXPECT_EQ(parse_failure(to_json(failure)), failure);
}

TEST(Shell, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(shell_join({"a-b=/c", "", "d e", "$x"}), "a-b=/c '' 'd e' '$x'");
}

} // namespace
} // namespace argosy::launch
