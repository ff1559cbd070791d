// How `argosy run` ends: signals, stubborn workers, and what they leave behind.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/launch/descendants.h"
#include "tests/launch/argosy_process.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two workers, each with a child in the same group and one in a session of its
// own, which ignores SIGTERM. Six processes, whose numbers are in pid.*.
constexpr const char* kFamily =
    "sleep 100 & echo $! > pid.$RANK.child\n"
    "setsid sh -c 'trap \"\" TERM; echo $$ > pid.'$RANK'.session; "
    "exec sleep 100' &\n"
    "echo $$ > pid.$RANK; wait";

TEST(Ending, ForwardsASignalAndExitsByIt) {
  ArgosyProcess job(run_sh(
      {"-n", "2"},
      "trap 'echo got; exit 0' TERM; echo $$ > pid.$RANK; "
      "while :; do sleep 0.01; done"));
  await_pids(job.folder(), 2);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_EQ(job.out(), "got\ngot\n");
}

TEST(Ending, LeavesWorkersThatDieOfTheSignalOutOfTheSummary) {
  ArgosyProcess job(run_sh({"-n", "2"}, "echo $$ > pid.$RANK; exec sleep 60"));
  await_pids(job.folder(), 2);
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT);
  EXPECT_EQ(job.err(), "");
}

TEST(Ending, ForwardsUserSignalsWithoutEnding) {
  ArgosyProcess job(run_sh(
      {},
      "trap 'echo saved; exit 0' USR1; echo $$ > pid.0; "
      "while :; do sleep 0.01; done"));
  await_pids(job.folder(), 1);
  job.send(SIGUSR1);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "saved\n");
}

TEST(Ending, KillsAtTheSecondSignal) {
  ArgosyProcess job(run_sh(
      {},
      "trap 'echo $$ > asked.0' TERM; echo $$ > pid.0; "
      "while :; do sleep 0.01; done"));
  const auto pids = await_pids(job.folder(), 1);
  job.send(SIGTERM);
  await_pids(job.folder(), 1, "asked.");
  // Signals that follow each other at once count as one; so send until it is
  // over, which is long before the grace period is.
  EXPECT_TRUE(eventually([&] {
    job.send(SIGTERM);
    return !is_alive(job.pid());
  }));
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_EQ(count_alive(pids, 0), 0);
}

TEST(Ending, KillsWorkersThatIgnoreItAfterTheGracePeriod) {
  ArgosyProcess job(run_sh(
      {"-n", "2", "--grace", "300ms"},
      "trap '' TERM; echo $$ > pid.$RANK; [ $RANK = 0 ] || "
      "{ until [ -s pid.0 ]; do :; done; exit 3; }; "
      "while :; do sleep 0.01; done"));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(count_alive(await_pids(job.folder(), 2), 0), 0);
}

TEST(Ending, LeavesNothingBehindASuccess) {
  ArgosyProcess job(run_sh(
      {"--grace", "200ms"},
      "sleep 100 & echo $! > pid.1; setsid sh -c 'trap \"\" TERM; "
      "echo $$ > pid.2; exec sleep 100' & until [ -s pid.2 ]; do :; done"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(count_alive(await_pids(job.folder(), 2), 0), 0);
}

TEST(Ending, LeavesNothingBehindASignal) {
  ArgosyProcess job(run_sh({"-n", "2", "--grace", "200ms"}, kFamily));
  const auto pids = await_pids(job.folder(), 6);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_EQ(count_alive(pids, 0), 0);
}

TEST(Ending, LeavesNothingWhenTheCommandIsKilled) {
  ArgosyProcess job(run_sh({"-n", "2"}, kFamily));
  auto pids = await_pids(job.folder(), 6);
  for (const pid_t pid : launch::descendants(job.pid())) {
    pids.push_back(pid); // the launcher proper too
  }
  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  EXPECT_EQ(count_alive(pids, 2000), 0);
}

TEST(Ending, LeavesNothingWhenTheLauncherIsKilled) {
  ArgosyProcess job(run_sh({"-n", "2"}, kFamily));
  const auto pids = await_pids(job.folder(), 6);
  ::kill(launch::descendants(job.pid()).at(0), SIGKILL);
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  EXPECT_EQ(count_alive(pids, 0), 0);
}

TEST(Ending, KillsWhatStartedWhenALaterWorkerCannotStart) {
  // Each worker takes four files of the launcher's; the last ones find none.
  ArgosyProcess job(
      run_sh({"-n", "4", "-t", "3"}, "echo $$ > pid.$RANK; exec sleep 60"),
      {.before = {"prlimit", "--nofile=24"}});
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), HasSubstr("Too many open files"));
  EXPECT_EQ(count_alive(read_pids(job.folder()), 0), 0);
}

// Reads from a pipe that has a name, until the job has ended.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& pipe)
      : fd_(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK)),
        thread_([this] { run(); }) {}
  ~Reader() {
    stop();
    ::close(fd_);
  }

  std::string stop() {
    stopping_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
    return text_;
  }

 private:
  void run() {
    std::array<char, 65536> buffer;
    while (!stopping_) {
      pollfd ready{fd_, POLLIN, 0};
      ::poll(&ready, 1, 10);
      const ssize_t size = ::read(fd_, buffer.data(), buffer.size());
      text_.append(
          buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    }
  }

  const int fd_;
  std::atomic<bool> stopping_{false};
  std::string text_; // of the thread
  std::thread thread_;
};

// As a stopped `less`: the pipe is open, and nobody reads from it.
const std::vector<std::string> kUnreadConsole = {
    "sh", "-c", "mkfifo console; exec 9<>console; exec \"$@\" >console", "sh"};

TEST(Ending, AConsoleThatDoesNotReadHoldsNobodyUp) {
  constexpr std::size_t kBytes = 3'000'000;
  ArgosyProcess job(
      run_sh(
          {"--tee", "3", "--log-dir", "logs", "--grace", "500ms"},
          "yes a line of text | head -c 3000000; echo $$ > pid.0; "
          "trap '' TERM; while :; do sleep 0.01; done"),
      {.before = kUnreadConsole});
  // The worker has written everything, and the file has it.
  const auto pids = await_pids(job.folder(), 1);
  std::size_t logged = 0;
  EXPECT_TRUE(eventually([&] {
    logged = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(job.folder() / "logs")) {
      logged += entry.path().filename() == "stdout.log" ? entry.file_size() : 0;
    }
    return logged >= kBytes;
  })) << logged;
  // Signals still work, and so does the clock of the grace period.
  job.send(SIGTERM);
  EXPECT_EQ(count_alive(pids, 10'000), 0);
  Reader reader(job.folder() / "console");
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  const std::string shown = reader.stop();
  EXPECT_THAT(shown, HasSubstr("lines are missing here"));
  EXPECT_THAT(shown, HasSubstr("[default0]:a line of text\n"));
}

TEST(Ending, AConsoleThatReadsSlowlyGetsEverything) {
  ArgosyProcess job(
      run_sh(
          {"--tee", "3", "--log-dir", "logs"},
          "yes a line of text | head -c 3000000; echo; echo end"),
      {.before = kUnreadConsole});
  EXPECT_TRUE(eventually(
      [&] { return std::filesystem::exists(job.folder() / "console"); }));
  Reader reader(job.folder() / "console");
  EXPECT_EQ(job.wait(), 0);
  const std::string shown = reader.stop();
  EXPECT_THAT(shown, HasSubstr("[default0]:end\n"));
  EXPECT_GT(shown.size(), 3'000'000u);
  EXPECT_EQ(shown.find("missing"), std::string::npos);
}

TEST(Ending, AFullDiskIsNamedAndTheJobGoesOn) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a small disk";
  }
  ArgosyProcess job(
      run_sh(
          {"--tee", "3", "--log-dir", "logs"},
          "yes text | head -c 300000; echo end"),
      {.before = {
           "unshare",
           "-m",
           "sh",
           "-c",
           "mkdir logs; mount -t tmpfs -o size=64k none logs; exec \"$@\"",
           "sh"}});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.out(), HasSubstr("[default0]:end\n"));
  EXPECT_THAT(
      job.out(),
      AllOf(
          HasSubstr("stdout.log: No space left on device; the job goes on"),
          HasSubstr("bytes are missing")));
}

// The descendant belongs to another user, so that its ancestor cannot kill it.
TEST(Ending, GivesUpOnWhatCannotBeKilled) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can become another user";
  }
  const pid_t ancestor = ::fork(); // lint: allow fork: no torch here
  if (ancestor == 0) {
    launch::become_subreaper();
    const pid_t parent = ::getpid();
    const pid_t child = ::fork(); // lint: allow fork: as above
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (::getppid() == parent) {
        ::poll(nullptr, 0, 50);
      }
      ::_exit(0); // lint: allow exit
    }
    const bool other_user = ::setresuid(65534, 65534, 65534) == 0;
    const auto left = launch::kill_descendants(
        Deadline::after(std::chrono::milliseconds(200)));
    const bool named = left == std::vector<pid_t>{child};
    ::_exit(other_user && named ? 0 : 1); // lint: allow exit
  }
  int status = -1;
  EXPECT_TRUE(eventually(
      [&] { return ::waitpid(ancestor, &status, WNOHANG) == ancestor; }));
  EXPECT_EQ(status, 0);
  if (status == -1) {
    ::kill(ancestor, SIGKILL);
    ::waitpid(ancestor, &status, 0);
  }
}

TEST(Ending, FollowsStandardInputWhenAsked) {
  // The input is a file, so it is at its end at once.
  ArgosyProcess job(run_sh({"--exit-with-stdin"}, "exec sleep 60"));
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

} // namespace
} // namespace argosy::testing
