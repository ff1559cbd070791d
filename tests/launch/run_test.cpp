// `argosy run` on one node, as a process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "tests/launch/argosy_process.h"
#include "tests/support/free_port.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;

TEST(Run, TellsEachRankWhoItIs) {
  ArgosyProcess job(run_sh(
      {"-n", "3", "--role", "r"},
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $ROLE_NAME "
      "$PADDLE_TRAINER_ID $TORCHELASTIC_RESTART_COUNT"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(
      sorted_lines(job.out()),
      ElementsAre("0/3 0/3 r 0 0", "1/3 1/3 r 1 0", "2/3 2/3 r 2 0"));
  EXPECT_THAT(job.err(), IsEmpty());
}

TEST(Run, PassesArgumentsOn) {
  Words words = run_sh({}, "for a; do echo \"<$a>\"; done");
  words.insert(words.end(), {"sh", "-n", "4", "a b", "--", ""});
  ArgosyProcess job(words);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "<-n>\n<4>\n<a b>\n<-->\n<>\n");
}

TEST(Run, GivesDistinctPortsThatCanBeBound) {
  ArgosyProcess job(run_sh(
      {"-n", "2"},
      "[ $RANK = 1 ] || exec python3 -c 'import os, socket\n"
      "ports = {int(e.split(\":\")[1]) for e in "
      "os.environ[\"PADDLE_TRAINER_ENDPOINTS\"].split(\",\")}\n"
      "ports.add(int(os.environ[\"MASTER_PORT\"]))\n"
      "held = []\n"
      "for port in ports:\n"
      "    s = socket.socket()\n"
      "    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
      "    s.bind((\"127.0.0.1\", port)); s.listen(); held.append(s)\n"
      "print(len(held))'"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.out(), "3\n");
}

TEST(Run, UsesTheMasterPortThatIsGiven) {
  const std::string port = std::to_string(free_port());
  ArgosyProcess job(run_sh({"--master-port", port}, "echo $MASTER_PORT"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), port + "\n");
}

TEST(Run, RefusesBeforeItStartsAnything) {
  const std::pair<Words, std::string> cases[] = {
      {{"run", "./none"}, "[launch.program] ./none: no such file"},
      {{"run", "no-such-program"}, "not found in PATH"},
      {{"run", "./in"}, "./in: not executable"},
      {{"run", "in"}, "did you mean ./in?"},
      {{"run", "none.py"}, "none.py: no such file"},
      {{"run", "--nnode", "2", "true"}, "did you mean --nnodes?"}};
  for (const auto& [words, expected] : cases) {
    ArgosyProcess job(words);
    EXPECT_EQ(job.wait(), 2);
    EXPECT_THAT(job.err(), HasSubstr(expected));
  }
}

TEST(Run, RunsPythonFilesAndModules) {
  TempDir folder;
  const std::string script = folder.path() / "x.py";
  write_file(
      script,
      "import os, sys; print(__name__, sys.argv[1], os.environ['RANK'])");
  for (const Words& words :
       {Words{"run", script, "arg"},
        Words{"run", "--run-path", script, "arg"}}) {
    ArgosyProcess job(words);
    EXPECT_EQ(job.wait(), 0) << job.err();
    EXPECT_EQ(job.out(), "__main__ arg 0\n");
  }
  ArgosyProcess module({"run", "-m", "json.tool", "--help"});
  EXPECT_EQ(module.wait(), 0);
  EXPECT_THAT(module.out(), HasSubstr("json"));
  ArgosyProcess direct({"run", "--no-python", script});
  EXPECT_EQ(direct.wait(), 2);
}

TEST(Run, EndsTheOthersWhenOneFails) {
  ArgosyProcess job(run_sh(
      {"-n", "3", "--grace", "10"},
      "echo $$ > pid.$RANK; [ $RANK = 1 ] || exec sleep 60; "
      "until [ -s pid.0 ] && [ -s pid.2 ]; do :; done; exit 7"));
  EXPECT_EQ(job.wait(), 7);
  EXPECT_EQ(count_alive(await_pids(job.folder(), 3), 0), 0);
  EXPECT_THAT(
      job.err(),
      AllOf(
          HasSubstr("default 1 (process"),
          HasSubstr("ending the other 2"),
          HasSubstr("Root Cause (first observed failure):\n[0]:"),
          HasSubstr("rank      : 1 (local_rank: 1)"),
          HasSubstr("exitcode  : 7 (pid:"),
          Not(HasSubstr("Other Failures"))));
}

TEST(Run, ReportsTheSignalThatKilledAWorker) {
  ArgosyProcess job(run_sh({"-n", "2"}, "[ $RANK = 0 ] || kill -SEGV $$"));
  EXPECT_EQ(job.wait(), 139);
  EXPECT_THAT(
      job.err(),
      AllOf(HasSubstr("exitcode  : -11"), HasSubstr("Signal 11 (SIGSEGV)")));
}

TEST(Run, ReadsTheErrorFileOfAWorker) {
  ArgosyProcess job(run_sh(
      {"--log-dir", "logs"},
      "echo '{\"message\": {\"message\": \"RuntimeError: boom\"}}' "
      "> $TORCHELASTIC_ERROR_FILE; exit 1"));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(
      job.err(),
      AllOf(HasSubstr("RuntimeError: boom"), HasSubstr("/0/error.json")));
}

TEST(Run, WritesLogsUnderOtherNamesByChoice) {
  const std::pair<const char*, const char*> names[] = {
      {"paddle", "workerlog.1"}, {"msrun", "worker_1.log"}};
  for (const auto& [launcher, file] : names) {
    ArgosyProcess job(run_sh(
        {"-n", "2", "--log_dir", "logs", "--log-names", launcher},
        "echo out $RANK; echo err $RANK >&2"));
    EXPECT_EQ(job.wait(), 0);
    EXPECT_THAT(
        sorted_lines(read_file(job.folder() / "logs" / file).value_or("")),
        ElementsAre("err 1", "out 1"));
    EXPECT_THAT(
        sorted_lines(job.out()),
        ElementsAre("[default0]:out 0", "[default1]:out 1"));
  }
}

TEST(Run, WritesLogsInTorchrunsLayout) {
  ArgosyProcess job(run_sh(
      {"-n",
       "2",
       "--log-dir",
       "logs",
       "--rdzv-id",
       "job",
       "-r",
       "0:3",
       "-t",
       "1:3"},
      "echo out $RANK; echo err $RANK >&2; printf end"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[default1]:out 1\n[default1]:end\n");
  EXPECT_EQ(job.err(), "[default1]:err 1\n");
  const std::filesystem::directory_iterator runs(job.folder() / "logs");
  const auto run = runs->path();
  EXPECT_TRUE(run.filename().string().starts_with("job_"));
  EXPECT_EQ(read_file(run / "attempt_0/0/stdout.log"), "out 0\nend");
  EXPECT_EQ(read_file(run / "attempt_0/0/stderr.log"), "err 0\n");
  EXPECT_EQ(read_file(run / "attempt_0/1/stdout.log"), "out 1\nend");
}

TEST(Run, KeepsLinesOfManyWritersWhole) {
  ArgosyProcess job(
      run_sh(
          {"-n", "4", "-t", "3"},
          "i=0; while [ $i -lt 300 ]; do printf '%s' $RANK.; printf "
          "'%0200d\\n' $i; i=$((i+1)); done"),
      {.env = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${rank}>"}}});
  EXPECT_EQ(job.wait(), 0);
  const auto lines = sorted_lines(job.out());
  EXPECT_EQ(lines.size(), 1200u);
  for (const std::string& line : lines) {
    ASSERT_EQ(line.size(), 205u) << line;
    ASSERT_EQ(line[1], line[3]) << line; // prefix and content agree
  }
}

TEST(Run, ShowsOnlyTheRanksOfTheFilter) {
  ArgosyProcess job(run_sh(
      {"-n", "3", "--local-ranks-filter", "1", "-t", "2:1"}, "echo $RANK"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "1\n");
}

TEST(Run, ShowsTheEndOfCapturedStderr) {
  ArgosyProcess job(run_sh({"-r", "2"}, "echo the reason >&2; exit 3"));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_THAT(job.err(), HasSubstr("    the reason"));
}

TEST(Run, TakesPetVariablesButFlagsWin) {
  ArgosyProcess job(
      run_sh(
          {"--max-restarts", "3"},
          "echo $WORLD_SIZE $TORCHELASTIC_MAX_RESTARTS"),
      {.env = {{"PET_NPROC_PER_NODE", "2"}, {"PET_MAX_RESTARTS", "9"}}});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "2 3\n2 3\n");
}

TEST(Run, RestartsAllUntilTheyAreUsedUp) {
  ArgosyProcess job(run_sh(
      {"-n", "2", "--max-restarts", "2"},
      "c=$TORCHELASTIC_RESTART_COUNT; echo $RANK $c; touch up.$RANK.$c\n"
      "[ $c = 2 ] && exit 0\n"
      "[ $RANK = 0 ] && exec sleep 60\n"
      "until [ -e up.0.$c ]; do :; done; exit 4"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(
      sorted_lines(job.out()),
      ElementsAre("0 0", "0 1", "0 2", "1 0", "1 1", "1 2"));
  EXPECT_THAT(job.err(), HasSubstr("restart 2 of 2"));
  ArgosyProcess failing(run_sh(
      {"--max-restarts", "1"}, "exit $((4 + TORCHELASTIC_RESTART_COUNT))"));
  EXPECT_EQ(failing.wait(), 5);
}

TEST(Run, GivesStandardInputToRankZero) {
  ArgosyProcess job(
      run_sh({"-n", "2"}, "echo $RANK $(cat)"), {.input = "hello\n"});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(sorted_lines(job.out()), ElementsAre("0 hello", "1"));
}

TEST(Run, StandsClosedStandardStreams) {
  ArgosyProcess job(
      run_sh({"-n", "2"}, "cat; echo $RANK"),
      {.before = {"sh", "-c", "exec \"$@\" <&- 2>&-", "sh"}});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(sorted_lines(job.out()), ElementsAre("0", "1"));
}

TEST(Run, ChoosesOmpThreadsAndSaysSo) {
  const Words words = run_sh({"-n", "2"}, "echo $OMP_NUM_THREADS");
  ArgosyProcess chosen(words, {.env = {{"OMP_NUM_THREADS", ""}}});
  EXPECT_EQ(chosen.wait(), 0);
  EXPECT_EQ(chosen.out(), "1\n1\n");
  EXPECT_THAT(chosen.err(), HasSubstr("OMP_NUM_THREADS"));
  ArgosyProcess given(words, {.env = {{"OMP_NUM_THREADS", "5"}}});
  EXPECT_EQ(given.wait(), 0);
  EXPECT_EQ(given.out(), "5\n5\n");
  EXPECT_THAT(given.err(), IsEmpty());
}

TEST(Run, BindsWorkersToCores) {
  cpu_set_t own;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(own), &own), 0);
  const int num_cpus = CPU_COUNT(&own);
  const int num_workers = std::min(num_cpus, 2);
  ArgosyProcess job(
      run_sh(
          {"-n", std::to_string(num_workers), "--bind-to", "core"},
          "grep Cpus_allowed_list /proc/self/status; nproc"),
      {.env = {{"OMP_NUM_THREADS", ""}}});
  EXPECT_EQ(job.wait(), 0);
  const auto lines = sorted_lines(job.out());
  ASSERT_EQ(lines.size(), 2u * num_workers);
  EXPECT_EQ(std::stoi(lines[0]), num_cpus / num_workers);
  EXPECT_NE(lines[num_workers], lines.back()) << "two workers, one set";
}

TEST(Run, PlansWithoutStarting) {
  ArgosyProcess job(run_sh({"-n", "2", "--dry-run"}, "touch started"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.out(), HasSubstr("default 1/2, local 1/2"));
  EXPECT_FALSE(std::filesystem::exists(job.folder() / "started"));
}

TEST(Run, IsUnderstoodByTheLibrary) {
  ArgosyProcess workers({"run", "-n", "2", ARGOSY_COMMAND, "env"});
  EXPECT_EQ(workers.wait(), 0) << workers.err();
  EXPECT_THAT(workers.out(), HasSubstr("You are worker 1/2, as torchrun says"));
  ArgosyProcess roles(
      {"run",
       "--server-num",
       "2",
       "--trainer-num",
       "1",
       ARGOSY_COMMAND,
       "env"});
  EXPECT_EQ(roles.wait(), 0) << roles.err();
  EXPECT_THAT(
      roles.out(),
      AllOf(
          HasSubstr("You are server 1/2, as paddle-ps says"),
          HasSubstr("You are worker 0/1, as paddle-ps says")));
}

TEST(Run, StartsServersAndTrainers) {
  ArgosyProcess job(run_sh(
      {"--server-num", "1", "--trainer-num", "2"},
      "echo $TRAINING_ROLE ${PADDLE_TRAINER_ID:-none} $PADDLE_TRAINERS_NUM"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(
      sorted_lines(job.out()),
      ElementsAre("PSERVER none 2", "TRAINER 0 2", "TRAINER 1 2"));
}

} // namespace
} // namespace argosy::testing
