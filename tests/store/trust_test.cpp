// Strangers at a server's port, over real sockets. Beside every one of them the
// job goes on.
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <latch>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/store/greeting.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/peer_user.h"
#include "argosy/store/socket.h"
#include "argosy/store/tcp_kv.h"
#include "argosy/store/wire.h"
#include "tests/store/expect.h"
#include "tests/support/command.h"

namespace argosy::store {
namespace {

using namespace std::chrono_literals;
using argosy::testing::message_of;
using argosy::testing::soon;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A server with a secret, and a client of its job.
class Trust : public ::testing::Test {
 protected:
  Endpoint endpoint() const { return {"127.0.0.1", server_.port()}; }

  Socket stranger(const std::string& bytes = "") const {
    Socket socket = connect_to(endpoint(), soon(), "the server");
    EXPECT_EQ(send_all(socket, bytes, soon()), IoResult::Done);
    return socket;
  }

  // What the server sends until it closes.
  static std::string rest_of(const Socket& socket) {
    std::string rest;
    EXPECT_EQ(
        receive(socket, std::string::npos, rest, soon()), IoResult::Closed);
    return rest;
  }

  // A connection that has proven that it belongs to the job.
  Socket member(const std::string& bytes) const {
    const ClientGreeting greeting(options_.credentials);
    Socket socket = stranger(greeting.opening());
    std::string answer;
    EXPECT_EQ(receive(socket, kAnswerBytes, answer, soon()), IoResult::Done);
    const auto accepted = greeting.accept(answer, "server", "");
    EXPECT_EQ(send_all(socket, accepted.proof + bytes, soon()), IoResult::Done);
    return socket;
  }

  bool eventually(const std::function<bool(const ServerCounts&)>& condition) {
    for (const Deadline limit = soon(); !limit.expired();) {
      if (condition(server_.counts())) {
        return true;
      }
      job_works();
    }
    return false;
  }

  void job_works() { EXPECT_EQ(job_.add("n", 1, soon()), ++count_); }

  const ServerOptions options_{
      .credentials = {.secret = Secret::random()},
      .limits = {
          .greeting = 300ms,
          .greeters = 64,
          .stall = 300ms,
          .table_bytes = 1 << 20,
          .buffer_bytes = 4 << 20,
          .leases = 8}};
  const KvServer server_{{"127.0.0.1", 0}, options_};
  TcpKv job_{
      {"127.0.0.1", server_.port()},
      soon(),
      {.credentials = options_.credentials}};
  int count_ = 0;
};

TEST_F(Trust, WrongAndMissingSecretsAreClosedCountedAndExplained) {
  const Credentials wrong{.secret = Secret::random()};
  EXPECT_THAT(
      message_of<StoreError>(
          [&] { TcpKv(endpoint(), soon(), {.credentials = wrong}); }),
      AllOf(HasSubstr(endpoint().text()), HasSubstr("does not know")));
  EXPECT_THAT(
      message_of<StoreError>([&] { TcpKv(endpoint(), soon()); }),
      HasSubstr("ARGOSY_SECRET_FILE"));
  // A client that does not care for the server's proof.
  const Socket liar =
      stranger(ClientGreeting(wrong).opening() + std::string(32, 'x'));
  EXPECT_EQ(rest_of(liar).size(), kAnswerBytes);
  EXPECT_TRUE(eventually([](const auto& c) { return c.refused == 2; }));
  EXPECT_EQ(server_.counts().proven, 1u);
  job_works();
}

TEST_F(Trust, RecordedAndReflectedGreetingsAreRefused) {
  const ClientGreeting greeting(options_.credentials);
  const Socket first = stranger(greeting.opening());
  std::string answer;
  ASSERT_EQ(receive(first, kAnswerBytes, answer, soon()), IoResult::Done);
  const std::string proof = greeting.accept(answer, "server", "").proof;
  const std::string get = WireWriter(Op::Get).text("n").body();
  const std::string request = frame_header(get.size()) + get;
  send_all(first, proof + request, soon());
  std::string reply;
  ASSERT_EQ(receive(first, kLengthBytes, reply, soon()), IoResult::Done);
  // The same bytes again; and the server's proof as the client's.
  EXPECT_EQ(
      rest_of(stranger(greeting.opening() + proof + request)).size(),
      kAnswerBytes);
  const Socket mirror = stranger(greeting.opening());
  answer.clear();
  ASSERT_EQ(receive(mirror, kAnswerBytes, answer, soon()), IoResult::Done);
  send_all(mirror, answer.substr(kAnswerBytes - kProofBytes) + request, soon());
  EXPECT_EQ(rest_of(mirror), "");
  EXPECT_EQ(server_.counts().refused, 2u);
  job_works();
}

TEST_F(Trust, GarbageIsClosedAtOnce) {
  for (const std::string& bytes :
       {std::string("GET /metrics HTTP/1.1\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01", 6),
        std::string(100'000, '\xff'),
        std::string(1, '\0')}) {
    EXPECT_EQ(rest_of(stranger(bytes)), "");
  }
  EXPECT_EQ(server_.counts().refused, 4u);
  job_works();
}

// A byte now and then, so that it is never silent for long.
TEST_F(Trust, ASlowGreetingIsClosedAtItsDeadline) {
  const auto began = Deadline::Clock::now();
  const Socket silent = stranger();
  const Socket slow = stranger();
  const std::string opening = ClientGreeting(options_.credentials).opening();
  std::size_t sent = 0;
  while (is_quiet(slow) && sent < opening.size() - 1) {
    send_all(slow, opening.substr(sent++, 1), soon());
    job_works();
    await_ready(slow.fd(), POLLIN, Deadline::after(20ms));
  }
  EXPECT_EQ(rest_of(slow), "");
  EXPECT_EQ(rest_of(silent), "");
  EXPECT_GE(Deadline::Clock::now() - began, 290ms);
  EXPECT_LT(Deadline::Clock::now() - began, 5s);
  EXPECT_EQ(server_.counts().late, 2u);
}

TEST_F(Trust, AThousandSilentStrangersKeepNobodyOut) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t needed = 2300;
  if (files.rlim_cur < needed) {
    files.rlim_cur = std::min(needed, files.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  std::vector<Socket> crowd;
  for (int i = 0; i < 1000; ++i) {
    crowd.push_back(stranger(i % 2 == 0 ? "" : "A"));
    if (i % 100 == 0) {
      job_works();
      TcpKv late(endpoint(), soon(), {.credentials = options_.credentials});
      EXPECT_TRUE(late.get("n", soon()));
    }
  }
  EXPECT_TRUE(eventually([](const ServerCounts& counts) {
    return counts.evicted + counts.late == 1000;
  }));
}

TEST_F(Trust, AMemberThatStopsHalfwayOrIsTooLargeIsClosed) {
  const Socket half = member(frame_header(1000) + "abc");
  EXPECT_EQ(rest_of(half), "");
  EXPECT_EQ(rest_of(member("\xff\xff\xff\xff")), "");
  // More than all messages together may hold.
  const Socket large = member(frame_header(60 << 20));
  send_all(large, std::string(8 << 20, 'x'), Deadline::after(2s));
  EXPECT_EQ(rest_of(large), "");
  const auto counts = server_.counts();
  EXPECT_EQ(counts.stalled, 1u);
  EXPECT_EQ(counts.too_large, 2u);
  job_works();
  // One that is silent between its requests stays.
  const std::string add = WireWriter(Op::Add).text("n").i64(1).body();
  const Socket idle = member(frame_header(add.size()) + add);
  std::string reply;
  EXPECT_EQ(receive(idle, kLengthBytes + 9, reply, soon()), IoResult::Done);
  ++count_;
  EXPECT_FALSE(await_ready(idle.fd(), POLLIN, Deadline::after(700ms)));
}

TEST_F(Trust, TheTableHasALimit) {
  job_.set("a", std::string(600'000, 'x'), soon());
  EXPECT_THAT(
      message_of<StoreError>(
          [&] { job_.set("b", std::string(600'000, 'x'), soon()); }),
      AllOf(HasSubstr("[store.set] key 'b'"), HasSubstr("at most 1048576")));
  job_.set("a", std::string(700'000, 'y'), soon()); // in place of the old value
  EXPECT_TRUE(job_.erase("a", soon()));
  job_.set("b", std::string(900'000, 'x'), soon());
  std::vector<std::unique_ptr<Lease>> leases;
  for (int i = 0; i < 8; ++i) {
    leases.push_back(job_.grant(30s, soon()));
  }
  EXPECT_THAT(
      message_of<StoreError>([&] { job_.grant(30s, soon()); }),
      HasSubstr("fewer than 8"));
  job_works();
}

// The server shares the table of descriptors with its clients here.
TEST_F(Trust, AFullDescriptorTableEndsNothing) {
  const KvServer server(
      {"127.0.0.1", 0}, {.credentials = options_.credentials});
  const Endpoint place{"127.0.0.1", server.port()};
  TcpKv job(place, soon(), {.credentials = options_.credentials});
  job.add("n", 1, soon());
  std::vector<Socket> crowd;
  for (std::uint64_t i = 0; i < 20; ++i) {
    crowd.push_back(connect_to(place, soon(), "the server"));
    while (server.counts().accepted < i + 2) {
      job.add("n", 1, soon());
    }
  }
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  // No descriptor is left but one, for a client's own.
  const int next = ::dup(0);
  ::close(next);
  const rlimit full{static_cast<rlim_t>(next + 1), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  {
    // The server makes room by closing a stranger.
    const Socket one = connect_to(place, soon(), "the server");
    for (const Deadline limit = soon();
         server.counts().accepted < 22 && !limit.expired();) {
      job.add("n", 1, soon());
    }
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GE(server.counts().evicted, 1u);
  TcpKv late(place, soon(), {.credentials = options_.credentials});
  EXPECT_TRUE(late.get("n", soon()));
}

TEST(PeerUser, IsFoundForBothFamilies) {
  const KvServer server({"", 0});
  const Endpoint v4{"127.0.0.1", server.port()};
  const Socket socket = connect_to(v4, soon(), "the server");
  // Both ends are ours, and each sees the other's user.
  EXPECT_EQ(loopback_peer_user(socket), ::geteuid());
  constexpr std::string_view kTable =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
      "retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 0100007F:8001 01 00000000:00000000 00:00000000 "
      "00000000  1000        0 1 1 0\n"
      "   1: 0000000000000000FFFF00000100007F:8001 "
      "0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 "
      "00000000  1001        0 2 1 0\n";
  EXPECT_EQ(
      user_in_table(kTable, "0100007F:1F90", "0100007F:8001"), uid_t{1000});
  EXPECT_EQ(
      user_in_table(kTable, "0100007F:8001", "0100007F:1F90"), uid_t{1001});
  EXPECT_EQ(
      user_in_table(kTable, "0100007F:8002", "0100007F:1F90"), std::nullopt);
}

// As root, a client of another user can be made: its socket belongs to nobody.
TEST(PeerUser, KeepsOtherUsersOutWhereThereIsNoSecret) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make sockets of another user";
  }
  const KvServer server({"127.0.0.1", 0});
  const Endpoint endpoint{"127.0.0.1", server.port()};
  const auto result = argosy::testing::run_command(str_format(
      "setpriv --reuid 65534 --clear-groups /usr/bin/python3 - {} < "
      "{}/tests/store/open_client.py",
      server.port(),
      ARGOSY_SOURCE_DIR));
  EXPECT_THAT(result.output, HasSubstr("closed"));
  EXPECT_EQ(server.counts().refused, 1u);
  TcpKv(endpoint, soon()).set("k", "1", soon());
}

TEST(TrustLimits, ConnectionsAreCounted) {
  const KvServer server({"127.0.0.1", 0}, {.limits = {.connections = 3}});
  const Endpoint endpoint{"127.0.0.1", server.port()};
  std::vector<std::unique_ptr<TcpKv>> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back(std::make_unique<TcpKv>(endpoint, soon()));
  }
  EXPECT_THROW(TcpKv(endpoint, Deadline::after(300ms)), Error);
  EXPECT_GE(server.counts().too_large, 1u);
  EXPECT_EQ(members[0]->add("n", 1, soon()), 1);
  members.pop_back();
  TcpKv(endpoint, soon()).set("k", "1", soon());
}

} // namespace
} // namespace argosy::store
