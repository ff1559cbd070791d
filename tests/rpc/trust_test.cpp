#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "argosy/common/error.h"
#include "argosy/rpc/address.h"
#include "argosy/rpc/socket_channel.h"
#include "argosy/store/greeting.h"
#include "argosy/store/socket.h"
#include "tests/rpc/workers.h"
#include "tests/store/certificates.h"

namespace argosy::rpc::testing {
namespace {

using argosy::testing::TestAuthority;
using store::Secret;
using ::testing::HasSubstr;

RpcError refusal(Endpoint& caller) {
  try {
    caller.call_sync(1, "echo", {}, {.deadline = within(10)});
  } catch (const RpcError& error) {
    return error;
  }
  ADD_FAILURE() << "it was let in";
  return {Failure::Remote, "", ""};
}

// Two workers with credentials of their own.
std::vector<std::unique_ptr<Endpoint>> pair_with(
    Transport transport,
    const store::Credentials& caller,
    const store::Credentials& callee) {
  std::vector<std::unique_ptr<Endpoint>> workers;
  for (int i = 0; i < 2; ++i) {
    EndpointOptions options = options_for(transport, i);
    options.credentials = i == 0 ? caller : callee;
    options.patience = std::chrono::seconds(2);
    workers.push_back(std::make_unique<Endpoint>(options));
  }
  introduce(workers);
  workers[1]->serve("echo", echo);
  return workers;
}

class TrustOver : public ::testing::TestWithParam<Transport> {};

INSTANTIATE_TEST_SUITE_P(
    Transports, TrustOver, all_transports(), transport_name);

TEST_P(TrustOver, TheSecretIsNeeded) {
  const Secret secret = Secret::random();
  const store::Credentials right{.secret = secret};
  const store::Credentials wrong{.secret = Secret::random()};
  const store::Credentials none{};
  auto good = pair_with(GetParam(), right, right);
  EXPECT_EQ(good[0]->call_sync(1, "echo", text("hi")).head, "hi");
  for (const auto& [caller, callee] :
       {std::pair{wrong, right}, {none, right}, {right, none}}) {
    auto workers = pair_with(GetParam(), caller, callee);
    const RpcError error = refusal(*workers[0]);
    EXPECT_EQ(error.failure(), Failure::Refused) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("worker1"));
    EXPECT_EQ(workers[1]->counts().served, 0);
  }
}

TEST(Trust, TlsOnTcp) {
  const TestAuthority authority;
  const TestAuthority other;
  const Secret secret = Secret::random();
  const store::Credentials ours{
      .secret = secret, .tls = authority.issue("node")};
  const store::Credentials theirs{.secret = secret, .tls = other.issue("node")};
  const store::Credentials plain{.secret = secret};
  auto workers = pair_with(Transport::Tcp, ours, ours);
  Message message{"head", {Bytes::owned(pattern(3000000))}};
  for (int i = 0; i < 3; ++i) {
    const Message reply = workers[0]->call_sync(1, "echo", message);
    EXPECT_EQ(reply.parts[0].text(), message.parts[0].text());
  }
  std::vector<Future<Message>> futures;
  for (int i = 0; i < 500; ++i) {
    futures.push_back(workers[0]->call(
        1, "echo", text(pattern(2000, i)), {.deadline = within(30)}));
  }
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(futures[i].wait().head, pattern(2000, i));
  }
  auto strangers = pair_with(Transport::Tcp, theirs, ours);
  EXPECT_NE(refusal(*strangers[0]).failure(), Failure::Remote);
  auto unencrypted = pair_with(Transport::Tcp, plain, ours);
  EXPECT_NE(refusal(*unencrypted[0]).failure(), Failure::Remote);
  EXPECT_EQ(unencrypted[1]->counts().served, 0);
}

// Waits until the server has closed the connection.
bool is_closed(const store::Socket& socket) {
  char byte = 0;
  while (store::await_ready(socket.fd(), POLLIN, within(15))) {
    const ssize_t got = ::recv(socket.fd(), &byte, 1, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
      return true;
    }
  }
  return false;
}

TEST(Trust, StrangersAreTurnedAwayAndDoNoHarm) {
  const store::Credentials right{.secret = Secret::random()};
  auto workers = pair_with(Transport::Unix, right, right);
  const std::string name = parse_address(workers[1]->address()).unix_name;
  const auto say = [&](std::string_view bytes) {
    store::Socket socket = connect_unix(name);
    EXPECT_EQ(store::send_all(socket, bytes, within(5)), store::IoResult::Done);
    return socket;
  };
  const store::Socket silent = say("");
  EXPECT_TRUE(is_closed(say("GET / HTTP/1.1\r\n\r\n" + pattern(200))));
  EXPECT_TRUE(is_closed(say(pattern(1000))));
  // A recorded opening with a proof of something else.
  const store::ClientGreeting greeting(right);
  EXPECT_TRUE(is_closed(say(greeting.opening() + pattern(32))));
  // Descriptors of somebody who has not proven himself.
  const store::Socket passing = connect_unix(name);
  EXPECT_GT(send_descriptors(passing.fd(), "AR", {0, 1, 2}), 0);
  EXPECT_EQ(workers[0]->call_sync(1, "echo", text("x")).head, "x");
  EXPECT_GE(workers[1]->counts().refused, 3);
}

TEST(Trust, GarbageOfMembersEndsTheirConnection) {
  auto workers = pair_with(Transport::Unix, {}, {});
  const std::string name = parse_address(workers[1]->address()).unix_name;
  store::Socket socket = connect_unix(name);
  const store::ClientGreeting greeting({});
  std::string answer;
  ASSERT_EQ(
      store::send_all(socket, greeting.opening(), within(5)),
      store::IoResult::Done);
  ASSERT_EQ(
      store::receive(socket, store::kAnswerBytes, answer, within(5)),
      store::IoResult::Done);
  const auto accepted = greeting.accept(answer, "server", "");
  ASSERT_EQ(
      store::send_all(
          socket, accepted.proof + std::string(100, '\x7f'), within(5)),
      store::IoResult::Done);
  EXPECT_TRUE(is_closed(socket));
  EXPECT_EQ(workers[0]->call_sync(1, "echo", text("x")).head, "x");
}

// A worker in a process of its own, made before this process has threads.
class WorkerProcess {
 public:
  explicit WorkerProcess(Transport transport) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      serve(transport, ends[1]);
    }
    ::close(ends[1]);
    address_.resize(400);
    std::size_t size = 0;
    ssize_t got = 0;
    while ((got = ::read(
                ends[0], address_.data() + size, address_.size() - size)) > 0) {
      size += static_cast<std::size_t>(got);
    }
    address_.resize(size);
    ::close(ends[0]);
  }
  ~WorkerProcess() { kill(SIGKILL); }

  void kill(int signal) {
    if (pid_ > 0) {
      ::kill(pid_, signal);
      if (signal == SIGKILL) {
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
      }
    }
  }
  const std::string& address() const { return address_; }

 private:
  [[noreturn]] static void serve(Transport transport, int out) {
    Endpoint endpoint(options_for(transport, 1));
    std::vector<IncomingCall> kept;
    endpoint.serve(
        "keep",
        [&](IncomingCall call) { kept.push_back(std::move(call)); },
        {.inline_ = true});
    endpoint.serve("echo", echo);
    const std::string address = endpoint.address();
    [[maybe_unused]] const auto written =
        ::write(out, address.data(), address.size());
    ::close(out);
    std::this_thread::sleep_for(std::chrono::seconds(60));
    ::_exit(0);
  }

  pid_t pid_ = -1;
  std::string address_;
};

class DeathOver : public ::testing::TestWithParam<Transport> {};

INSTANTIATE_TEST_SUITE_P(
    Transports, DeathOver, all_transports(), transport_name);

TEST_P(DeathOver, AKilledPeerIsNoticedWithinMilliseconds) {
  for (const bool once : {false, true}) {
    if (once && GetParam() == Transport::Tcp) {
      continue; // it may come back: the deadline or patience decides
    }
    WorkerProcess process(GetParam());
    Endpoint caller(options_for(GetParam(), 0));
    caller.set_peers(
        {{"worker0", caller.address()}, {"victim", process.address()}});
    EXPECT_EQ(caller.call_sync(1, "echo", text("x")).head, "x");
    const CallOptions options{.deadline = within(30), .exactly_once = once};
    auto waited = caller.call(1, "keep", {}, options);
    auto sync = std::thread([&] {
      EXPECT_THROW(caller.call_sync(1, "keep", {}, options), RpcError);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto begin = Deadline::Clock::now();
    process.kill(SIGKILL);
    try {
      waited.wait();
      ADD_FAILURE() << "it answered";
    } catch (const RpcError& error) {
      EXPECT_EQ(error.failure(), Failure::PeerLost);
      EXPECT_EQ(error.peer(), "victim");
      EXPECT_THAT(error.what(), HasSubstr("keep of victim (worker 1)"));
    }
    sync.join();
    EXPECT_LT(Deadline::Clock::now() - begin, std::chrono::seconds(1));
  }
}

TEST_P(DeathOver, AStoppedPeerTimesOut) {
  WorkerProcess process(GetParam());
  Endpoint caller(options_for(GetParam(), 0));
  caller.set_peers(
      {{"worker0", caller.address()}, {"stopped", process.address()}});
  EXPECT_EQ(caller.call_sync(1, "echo", text("x")).head, "x");
  process.kill(SIGSTOP);
  // More than buffers take, so that it is stuck in the middle.
  try {
    caller.call_sync(
        1,
        "echo",
        {"", {Bytes::owned(pattern(8 << 20))}},
        {.deadline = Deadline::after(std::chrono::milliseconds(150))});
    ADD_FAILURE() << "it answered";
  } catch (const RpcError& error) {
    EXPECT_EQ(error.failure(), Failure::Timeout);
    EXPECT_EQ(error.peer(), "stopped");
  }
  process.kill(SIGCONT);
  EXPECT_EQ(
      caller.call_sync(1, "echo", text("on"), {.deadline = within(20)}).head,
      "on");
}

} // namespace
} // namespace argosy::rpc::testing
