// Jobs of real processes, with strangers at their ports: who does not know the
// secret changes nothing, and finds no port that is not on loopback.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "argosy/store/greeting.h"
#include "argosy/store/socket.h"
#include "tests/launch/argosy_process.h"
#include "tests/support/free_port.h"
#include "tests/support/listeners.h"

namespace argosy::testing {
namespace {

using namespace std::chrono_literals;
using store::connect_to;
using store::Credentials;
using store::IoResult;
using store::Secret;
using store::Socket;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ResultOf;
using Words = std::vector<std::string>;

Deadline soon() {
  return Deadline::after(20s);
}

// A job of two ranks on this host whose rank 1 comes when it is let go. Until
// then rank 0, with `limits` of its shell, serves the store and waits.
class HeldJob {
 public:
  explicit HeldJob(const std::string& limits = "true")
      : port_(free_port()),
        job_(run_sh(
            {"-n", "2", "--master-port", std::to_string(port_)},
            str_format(
                "if [ $RANK = 1 ]; then while [ ! -e go ]; do sleep 0.02; "
                "done; else {}; fi; exec {}",
                limits,
                ARGOSY_WHO))) {
    stranger(); // waits until rank 0 listens
  }

  Socket stranger(const std::string& bytes = "") const {
    Socket socket = connect_to({"127.0.0.1", port_}, soon(), "rank 0");
    store::send_all(socket, bytes, soon());
    return socket;
  }

  pid_t launcher() const { return job_.pid(); }

  // Lets rank 1 come, and expects that the job ends as if nobody had been
  // there.
  void expect_success() {
    write_file(job_.folder() / "go", "");
    EXPECT_EQ(job_.wait(), 0) << job_.err();
    EXPECT_THAT(job_.out(), HasSubstr("rank 0/2"));
    EXPECT_THAT(job_.out(), HasSubstr("rank 1/2"));
    EXPECT_THAT(job_.out(), HasSubstr("sum 3"));
  }
  std::string err() const { return job_.err(); }

 private:
  const std::uint16_t port_;
  ArgosyProcess job_;
};

void allow_files(rlim_t count) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min(std::max(files.rlim_cur, count), files.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &files);
}

TEST(TrustedJob, IsNotStalledByASilentByteNorByAnythingElse) {
  HeldJob job;
  const Credentials wrong{.secret = Secret::random()};
  std::vector<Socket> strangers;
  strangers.push_back(job.stranger());
  strangers.push_back(job.stranger("A"));
  strangers.push_back(job.stranger(std::string(1, '\0')));
  strangers.push_back(job.stranger(std::string(100'000, '\xff')));
  strangers.push_back(job.stranger("GET / HTTP/1.0\r\n\r\n"));
  strangers.push_back(job.stranger(
      store::ClientGreeting(wrong).opening() + std::string(40, 'x')));
  strangers.push_back(
      job.stranger(store::ClientGreeting(Credentials{}).opening()));
  job.expect_success();
  // Each kind is logged once.
  const std::string log = job.err();
  for (const char* why : {"another protocol", "a wrong secret", "no secret"}) {
    const std::size_t at = log.find(why);
    EXPECT_NE(at, std::string::npos) << why;
    EXPECT_EQ(log.find(why, at + 1), std::string::npos) << why;
  }
}

// Rank 0 may have 64 descriptors, so that strangers could fill its table.
TEST(TrustedJob, SurvivesAThousandConnectionsAndAFullDescriptorTable) {
  allow_files(1200);
  for (const char* limits : {"true", "ulimit -n 64"}) {
    HeldJob job(limits);
    std::vector<Socket> crowd;
    for (int i = 0; i < 1000; ++i) {
      crowd.push_back(job.stranger());
    }
    job.expect_success();
  }
}

TEST(TrustedJob, ListensOnLoopbackOnly) {
  HeldJob job;
  std::vector<std::string> addresses;
  for (const pid_t pid : descendants_of(job.launcher())) {
    const auto theirs = listening_addresses(pid);
    addresses.insert(addresses.end(), theirs.begin(), theirs.end());
  }
  EXPECT_THAT(addresses, Not(IsEmpty()));
  EXPECT_THAT(addresses, Each(ResultOf(is_loopback_word, true)));
  job.expect_success();
}

// All that a process shows to those who look at it.
std::string visible_text(pid_t pid) {
  return read_file(str("/proc/", pid, "/cmdline")).value_or("") +
      read_file(str("/proc/", pid, "/environ")).value_or("");
}

TEST(TrustedJob, ShowsItsSecretNowhere) {
  const TempDir folder;
  const auto file = folder.path() / "secret";
  const std::string secret = Secret::random().hex();
  write_file(file, secret + "\n");
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  ArgosyProcess job(
      run_sh(
          {"-n", "2", "--secret-file", file},
          "env; cat $ARGOSY_SECRET_FILE > copy.$RANK; echo > pid.$RANK; "
          "while [ ! -e go ]; do sleep 0.02; done"),
      {.env = {{"ARGOSY_LOG", "trace"}}});
  ASSERT_TRUE(eventually([&] {
    return std::filesystem::exists(job.folder() / "pid.0") &&
        std::filesystem::exists(job.folder() / "pid.1");
  }));
  EXPECT_THAT(visible_text(job.pid()), Not(HasSubstr(secret)));
  const auto pids = descendants_of(job.pid());
  EXPECT_GE(pids.size(), 2u);
  for (const pid_t pid : pids) {
    EXPECT_THAT(visible_text(pid), Not(HasSubstr(secret)));
  }
  write_file(job.folder() / "go", "");
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(read_file(job.folder() / "copy.1"), secret);
  EXPECT_THAT(job.out() + job.err(), Not(HasSubstr(secret)));

  ArgosyProcess dry(
      run_sh({"-n", "2", "--secret-file", file, "--dry-run"}, "true"));
  EXPECT_EQ(dry.wait(), 0);
  EXPECT_THAT(dry.out() + dry.err(), Not(HasSubstr(secret)));
}

TEST(TrustedJob, TakesItsSecretFromTheVariableAndHidesIt) {
  const std::string secret = Secret::random().hex();
  ArgosyProcess job(
      run_sh({}, "env; cat $ARGOSY_SECRET_FILE > copy"),
      {.env = {{"ARGOSY_SECRET", secret}}});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(read_file(job.folder() / "copy"), secret);
  EXPECT_THAT(job.out(), Not(HasSubstr(secret)));
  ArgosyProcess bad(
      run_sh({}, "true"), {.env = {{"ARGOSY_SECRET", "hunter2"}}});
  EXPECT_NE(bad.wait(), 0);
  EXPECT_THAT(
      bad.err(), AllOf(HasSubstr("ARGOSY_SECRET"), Not(HasSubstr("hunter2"))));
}

// Two launchers, as on two nodes, that meet at a port of loopback.
class Nodes : public ::testing::Test {
 protected:
  Words node(int rank, const Words& flags) const {
    Words words = {
        "run",
        "--nnodes=2",
        str("--node-rank=", rank),
        "--rdzv-timeout=15",
        str("--rdzv-endpoint=127.0.0.1:", port_)};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back(ARGOSY_WHO);
    return words;
  }

  std::string secret_file(const std::string& name) const {
    const auto file = folder_.path() / name;
    write_file(file, Secret::random().hex());
    std::filesystem::permissions(file, std::filesystem::perms(0600));
    return file;
  }

  const TempDir folder_;
  const std::uint16_t port_ = free_port();
};

TEST_F(Nodes, MeetWithOneSecretOrWithNone) {
  const std::string file = secret_file("a");
  for (const Words& flags : {Words{"--secret-file", file}, Words{}}) {
    ArgosyProcess first(node(0, flags));
    ArgosyProcess second(node(1, flags));
    EXPECT_EQ(first.wait(), 0) << first.err();
    EXPECT_EQ(second.wait(), 0) << second.err();
    EXPECT_THAT(first.out() + second.out(), HasSubstr("rank 1/2"));
  }
}

TEST_F(Nodes, DoNotLetInWhoHasAnotherSecretOrNone) {
  const std::string ours = secret_file("a");
  ArgosyProcess first(node(0, {"--secret-file", ours}));
  connect_to({"127.0.0.1", port_}, soon(), "the launcher");
  ArgosyProcess other(node(1, {"--secret-file", secret_file("b")}));
  EXPECT_NE(other.wait(), 0);
  EXPECT_THAT(other.err(), HasSubstr("does not know the secret"));
  ArgosyProcess none(node(1, {}));
  EXPECT_NE(none.wait(), 0);
  EXPECT_THAT(none.err(), HasSubstr("asks for the secret"));
  // The job goes on when the right one comes.
  ArgosyProcess second(node(1, {"--secret-file", ours}));
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(first.wait(), 0) << first.err();
}

} // namespace
} // namespace argosy::testing
