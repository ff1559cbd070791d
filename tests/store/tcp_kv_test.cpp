// The TCP store's connections: bad clients, bad servers, breaks.
#include "argosy/store/tcp_kv.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <latch>
#include <optional>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/store/greeting.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/open_kv.h"
#include "argosy/store/socket.h"
#include "argosy/store/wire.h"
#include "tests/store/expect.h"
#include "tests/store/servers.h"

namespace argosy::store {
namespace {

using namespace std::chrono_literals;
using argosy::testing::await_any;
using argosy::testing::ExpectTakes;
using argosy::testing::ForeignServer;
using argosy::testing::kHttp400;
using argosy::testing::message_of;
using argosy::testing::soon;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

Endpoint local(std::uint16_t port) {
  return {"127.0.0.1", port};
}

// A connection that has sent `bytes`.
Socket raw_client(const KvServer& server, const std::string& bytes) {
  Socket socket = connect_to(local(server.port()), soon(), "the server");
  EXPECT_EQ(send_all(socket, bytes, soon()), IoResult::Done);
  return socket;
}

// A connection that has greeted as a client without secret does, and has then
// sent `bytes`.
Socket greeted_client(const KvServer& server, const std::string& bytes) {
  const ClientGreeting greeting{Credentials{}};
  Socket socket = raw_client(server, greeting.opening());
  std::string answer;
  EXPECT_EQ(receive(socket, kAnswerBytes, answer, soon()), IoResult::Done);
  const auto accepted = greeting.accept(answer, "the server", "");
  EXPECT_EQ(send_all(socket, accepted.proof + bytes, soon()), IoResult::Done);
  return socket;
}

bool closes(const Socket& socket) {
  std::string rest;
  return receive(socket, std::string::npos, rest, Deadline::after(5s)) ==
      IoResult::Closed;
}

TEST(KvServer, DropsGarbageAndServesOthers) {
  KvServer server(local(0));
  TcpKv kv(local(server.port()), soon());
  EXPECT_TRUE(closes(raw_client(server, "GET / HTTP/1.1\r\n\r\n")));
  EXPECT_TRUE(closes(raw_client(server, "ARGOSY KV 0001\r\n\r\n")));
  EXPECT_TRUE(closes(greeted_client(server, "\xff\xff\xff\xff")));
  EXPECT_TRUE(closes(greeted_client(server, frame_header(kLongestFrame + 1))));
  kv.set("k", "1", soon());
  EXPECT_EQ(kv.get("k", soon()), "1");
}

TEST(KvServer, RefusesMalformedRequests) {
  KvServer server(local(0));
  const std::string get = WireWriter(Op::Get).text("k").body();
  const std::string bodies[] = {
      "",                                               // no operation
      "\x7f",                                           // an unknown one
      std::string("\x02\xff\xff\xff\xff", 5),           // a text without bytes
      std::string("\x05", 1) + std::string(12, '\xff'), // countless keys
      get + "more",                                     // no end
      WireWriter(Op::Get).text(std::string(kLongestKey + 1, 'k')).body(),
  };
  for (const std::string& body : bodies) {
    const Socket socket =
        greeted_client(server, frame_header(body.size()) + body);
    std::string reply;
    ASSERT_EQ(receive(socket, kLengthBytes + 1, reply, soon()), IoResult::Done);
    EXPECT_EQ(static_cast<Status>(reply.back()), Status::Refused);
  }
}

TEST(KvServer, IsNotHeldUpByHalfMessagesAndClientsThatDoNotRead) {
  KvServer server(local(0));
  TcpKv kv(local(server.port()), soon());
  kv.set("big", std::string(8 << 20, 'x'), soon());
  const Socket half_hello = raw_client(server, "ARGO");
  const Socket half_frame = greeted_client(server, frame_header(1000) + "abc");
  const std::string get = WireWriter(Op::Get).text("big").body();
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += frame_header(get.size()) + get;
  }
  const Socket deaf = greeted_client(server, requests);
  EXPECT_EQ(kv.get("big", soon())->size(), 8u << 20);
  EXPECT_EQ(kv.add("n", 1, soon()), 1);
}

TEST(KvServer, NamesAnAddressThatIsTaken) {
  KvServer server(local(0));
  EXPECT_THAT(
      message_of<StoreError>([&] { KvServer again(local(server.port())); }),
      AllOf(
          HasSubstr(local(server.port()).text()), HasSubstr("already in use")));
  EXPECT_THROW(KvServer({"no-such-host.invalid", 0}), StoreError);
}

TEST(KvServer, ListensOnAllInterfaces) {
  KvServer server({"", 0});
  TcpKv(local(server.port()), soon()).set("k", "1", soon());
  TcpKv again({"localhost", server.port()}, soon());
  EXPECT_EQ(again.get("k", soon()), "1");
}

TEST(KvServer, StopsAtOnceWhileClientsWait) {
  std::optional<KvServer> server(local(0));
  TcpKv kv(local(server->port()), soon(), {.reconnect = 100ms});
  std::jthread waiter([&] {
    EXPECT_THAT(
        message_of<StoreError>([&] { kv.wait({"never"}, soon()); }),
        HasSubstr("lost"));
  });
  kv.set("k", "", soon());
  const auto begin = Deadline::Clock::now();
  server.reset();
  EXPECT_LT(Deadline::Clock::now() - begin, 1s);
}

TEST(TcpKv, WaitsForAServerThatStartsLater) {
  const ReservedPort port;
  std::optional<KvServer> server;
  std::latch trying(1);
  std::jthread client([&] {
    trying.count_down();
    TcpKv kv(local(port.port()), soon());
    kv.set("k", "1", soon());
  });
  trying.wait();
  server.emplace(local(port.port()));
  TcpKv(local(port.port()), soon()).wait({"k"}, soon());
}

TEST(TcpKv, NamesAServerThatIsNotThere) {
  const ReservedPort port;
  const ExpectTakes takes(300ms);
  EXPECT_THAT(
      message_of<TimeoutError>(
          [&] { TcpKv(local(port.port()), Deadline::after(300ms)); }),
      AllOf(
          HasSubstr(local(port.port()).text()),
          HasSubstr("Connection refused"),
          HasSubstr("an Argosy key-value server")));
}

// Runs `act` in a network of its own, where the system has one port for
// clients. False if this user may not.
bool in_network_with_one_port(
    std::uint16_t port, const std::function<void()>& act) {
  bool made = false;
  std::thread([&] {
    made = ::unshare(CLONE_NEWNET) == 0;
    const Socket own(::socket(AF_INET, SOCK_DGRAM, 0));
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    made = made && ::ioctl(own.fd(), SIOCSIFFLAGS, &loopback) == 0;
    std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
    range << port << " " << port << std::flush;
    if (made && range) {
      act();
    }
    made = made && range;
  }).join();
  return made;
}

// Nobody listens, and the client gets the port of the server: TCP connects it
// with itself, and what it says comes back.
TEST(TcpKv, DoesNotTakeItselfForAServer) {
  constexpr std::uint16_t kPort = 41'001;
  const bool ran = in_network_with_one_port(kPort, [&] {
    EXPECT_THAT(
        message_of<TimeoutError>(
            [&] { connect_to(local(kPort), Deadline::after(100ms), "it"); }),
        HasSubstr("cannot reach 127.0.0.1:41001"));
  });
  if (!ran) {
    GTEST_SKIP() << "only root can make a network";
  }
}

TEST(TcpKv, NamesAForeignServer) {
  const ForeignServer http(kHttp400);
  EXPECT_THAT(
      message_of<StoreError>([&] { TcpKv(http.endpoint(), soon()); }),
      AllOf(HasSubstr(http.endpoint().text()), HasSubstr("'H'")));
  const ForeignServer newer("ARGOSY KV 0003\r\n\r\n");
  EXPECT_THAT(
      message_of<StoreError>([&] { TcpKv(newer.endpoint(), soon()); }),
      AllOf(HasSubstr("0003"), HasSubstr("0002")));
}

TEST(TcpKv, GivesUpOnASilentServer) {
  const ForeignServer silent("");
  const ExpectTakes takes(300ms);
  EXPECT_THAT(
      message_of<TimeoutError>(
          [&] { TcpKv(silent.endpoint(), Deadline::after(300ms)); }),
      AllOf(HasSubstr(silent.endpoint().text()), HasSubstr("did not answer")));
}

// Greets each client, and closes the connection at its request.
class ClosingServer {
 public:
  ClosingServer()
      : listener_(listen_on(local(0))), thread_([this] { run(); }) {}
  ~ClosingServer() {
    stopping_ = true;
    thread_.join();
  }
  Endpoint endpoint() const { return local(port_of(listener_)); }
  int num_clients() const { return num_clients_; } // so far

 private:
  void run() {
    while (!stopping_) {
      await_any({&listener_});
      const Socket client(
          ::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK));
      if (client.fd() >= 0) {
        ++num_clients_;
        greet(client);
      }
    }
  }

  static void greet(const Socket& client) {
    ServerGreeting greeting(Credentials{}, "instance");
    std::string in;
    std::string out;
    receive(client, kOpeningBytes, in, soon());
    greeting.advance(in, out, "");
    send_all(client, out, soon());
    receive(client, kProofBytes + 1, in, soon());
  }

  Socket listener_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> num_clients_{0};
  std::thread thread_;
};

TEST(TcpKv, PausesBetweenTriesAndEndsThemAtTheDeadline) {
  const ClosingServer server;
  TcpKv kv(server.endpoint(), soon());
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(
      message_of<TimeoutError>([&] { kv.get("k", Deadline::after(400ms)); }),
      HasSubstr("400 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
  EXPECT_LT(server.num_clients(), 40);
}

TEST(TcpKv, NamesAHostThatDoesNotResolve) {
  EXPECT_THAT(
      message_of<StoreError>([&] {
        TcpKv({"no-such-host.invalid", 80}, Deadline::after(2s));
      }),
      AllOf(HasSubstr("no-such-host.invalid:80"), HasSubstr("not resolve")));
}

TEST(TcpKv, KnowsThatARestartedServerIsEmpty) {
  const ReservedPort port;
  std::optional<KvServer> server(local(port.port()));
  TcpKv kv(local(port.port()), soon());
  kv.set("k", "1", soon());
  server.reset();
  server.emplace(local(port.port()));
  EXPECT_THAT(
      message_of<StoreError>([&] { kv.get("k", soon()); }),
      HasSubstr("restarted"));
}

TEST(TcpKv, RefusesAMessageThatIsTooLong) {
  KvServer server(local(0));
  TcpKv kv(local(server.port()), soon());
  const std::string huge(kLongestFrame, 'x');
  EXPECT_THROW(kv.set("k", huge, soon()), InvalidArgument);
  const std::string half(40 << 20, 'x');
  kv.set("a", half, soon());
  kv.set("b", half, soon());
  EXPECT_THAT(
      message_of<StoreError>([&] { kv.list("", soon()); }),
      HasSubstr("at most 67108864"));
  EXPECT_EQ(kv.get("b", soon())->size(), half.size());
}

// Passes bytes to a server; cuts its connections on demand.
class CuttingProxy {
 public:
  explicit CuttingProxy(const Endpoint& server)
      : server_(server),
        listener_(listen_on(local(0))),
        thread_([this] { run(); }) {}
  ~CuttingProxy() {
    stopping_ = true;
    thread_.join();
  }
  Endpoint endpoint() const { return local(port_of(listener_)); }

  // From now on, the next request is passed on and its reply is lost.
  void cut_next_reply() { cut_ = true; }

 private:
  void run() {
    std::vector<std::pair<Socket, Socket>> pairs;
    while (!stopping_) {
      std::vector<const Socket*> sockets = {&listener_};
      for (const auto& [client, server] : pairs) {
        sockets.insert(sockets.end(), {&client, &server});
      }
      await_any(sockets);
      Socket client(::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK));
      if (client.fd() >= 0) {
        pairs.emplace_back(
            std::move(client), connect_to(server_, soon(), "the server"));
      }
      std::erase_if(pairs, [this](const auto& pair) {
        std::atomic<bool> never{false};
        return !move_bytes(pair.first, pair.second, never) ||
            !move_bytes(pair.second, pair.first, cut_);
      });
    }
  }

  // False when `from` was closed, or `cut` was set and bytes came.
  static bool move_bytes(
      const Socket& from, const Socket& to, std::atomic<bool>& cut) {
    char bytes[4096];
    const auto got = ::recv(from.fd(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0 && cut.exchange(false)) {
      return false;
    }
    if (got > 0) {
      send_all(to, {bytes, static_cast<std::size_t>(got)}, soon());
    }
    return got != 0;
  }

  const Endpoint server_;
  Socket listener_;
  std::atomic<bool> cut_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

TEST(TcpKv, RepeatsOnlyWhatMayBeRepeated) {
  KvServer server(local(0));
  CuttingProxy proxy(local(server.port()));
  TcpKv kv(proxy.endpoint(), soon());
  const auto lease = kv.grant(30s, soon());
  proxy.cut_next_reply();
  kv.set("k", "1", soon(), lease.get());
  proxy.cut_next_reply();
  EXPECT_EQ(kv.get("k", soon()), "1");
  proxy.cut_next_reply();
  kv.wait({"k"}, soon());
  proxy.cut_next_reply();
  EXPECT_EQ(kv.list("", soon()).size(), 1u);
  const auto unknown = HasSubstr("unknown");
  proxy.cut_next_reply();
  EXPECT_THAT(message_of<StoreError>([&] { kv.add("n", 1, soon()); }), unknown);
  EXPECT_EQ(kv.get("n", soon()), "1");
  proxy.cut_next_reply();
  EXPECT_THAT(
      message_of<StoreError>([&] { kv.compare_set("n", "1", "2", soon()); }),
      unknown);
  EXPECT_EQ(kv.get("n", soon()), "2");
  proxy.cut_next_reply();
  EXPECT_THAT(message_of<StoreError>([&] { kv.erase("n", soon()); }), unknown);
  EXPECT_TRUE(lease->alive());
}

TEST(OpenKv, OpensMemAndTcp) {
  const auto mem = open_kv("mem://open", soon());
  mem->set("k", "1", soon());
  EXPECT_EQ(open_kv("mem://open", soon())->get("k", soon()), "1");
  KvServer server(local(0));
  const std::string url = str("tcp://", local(server.port()).text());
  open_kv(url, soon())->set("k", "2", soon());
  EXPECT_EQ(open_kv(url, soon())->get("k", soon()), "2");
}

TEST(OpenKv, RefusesWhatItCannotOpen) {
  EXPECT_THAT(
      message_of<InvalidArgument>([] { open_kv("file:///tmp/x", soon()); }),
      HasSubstr("file:///tmp/x"));
  const ReservedPort port;
  const std::string url = str("tcp://", local(port.port()).text());
  const ExpectTakes takes(300ms);
  EXPECT_THROW(open_kv(url + "?timeout=300ms", soon()), TimeoutError);
}

} // namespace
} // namespace argosy::store
