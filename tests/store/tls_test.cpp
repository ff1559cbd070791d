// Mutual TLS between a store's server and its clients, and with etcd.
#include <nlohmann/json.hpp>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/http.h"
#include "argosy/store/base64.h"
#include "argosy/store/etcd_kv.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/open_kv.h"
#include "argosy/store/socket.h"
#include "argosy/store/tcp_kv.h"
#include "tests/store/certificates.h"
#include "tests/store/etcd_process.h"
#include "tests/store/expect.h"
#include "tests/store/servers.h"

namespace argosy::store {
namespace {

using namespace std::chrono_literals;
using argosy::testing::await_any;
using argosy::testing::EtcdProcess;
using argosy::testing::message_of;
using argosy::testing::soon;
using argosy::testing::TestAuthority;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const TestAuthority& authority() {
  static const TestAuthority ours;
  return ours;
}

const TlsFiles& node() {
  static const TlsFiles files = authority().issue("node");
  return files;
}

// Passes bytes of one connection on, and keeps them.
class Eavesdropper {
 public:
  explicit Eavesdropper(const Endpoint& server)
      : server_(server),
        listener_(listen_on({"127.0.0.1", 0})),
        thread_([this] { run(); }) {}
  ~Eavesdropper() { finish(); }

  Endpoint endpoint() const { return {"127.0.0.1", port_of(listener_)}; }

  // All bytes so far, of both directions.
  std::string finish() {
    stopping_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
    return heard_;
  }

 private:
  void run() {
    Socket client;
    while (!stopping_ && client.fd() < 0) {
      await_any({&listener_});
      client =
          Socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK));
    }
    if (stopping_) {
      return;
    }
    const Socket server = connect_to(server_, soon(), "the server");
    while (!stopping_) {
      await_any({&client, &server});
      if (!pass(client, server) || !pass(server, client)) {
        return;
      }
    }
  }

  bool pass(const Socket& from, const Socket& to) {
    char bytes[4096];
    const auto got = ::recv(from.fd(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0) {
      heard_.append(bytes, static_cast<std::size_t>(got));
      send_all(to, {bytes, static_cast<std::size_t>(got)}, soon());
    }
    return got != 0;
  }

  const Endpoint server_;
  Socket listener_;
  std::atomic<bool> stopping_{false};
  std::string heard_; // of the thread, until it has ended
  std::thread thread_;
};

TEST(Tls, CarriesTheStoresProtocol) {
  for (const bool with_secret : {false, true}) {
    const Credentials credentials{
        .secret = with_secret ? std::optional(Secret::random()) : std::nullopt,
        .tls = node()};
    const KvServer server({"127.0.0.1", 0}, {.credentials = credentials});
    const Endpoint endpoint{"127.0.0.1", server.port()};
    TcpKv kv(endpoint, soon(), {.credentials = credentials});
    const std::string big(20 << 20, 'x');
    kv.set("big", big, soon());
    EXPECT_EQ(kv.get("big", soon()), big);
    std::jthread setter([&] {
      TcpKv other(endpoint, soon(), {.credentials = credentials});
      other.set("late", "1", soon());
    });
    kv.wait({"late"}, soon());
    for (int i = 1; i <= 100; ++i) {
      ASSERT_EQ(kv.add("n", 1, soon()), i);
    }
    EXPECT_EQ(kv.list("", soon()).size(), 3u);
  }
}

TEST(Tls, ShowsNothingToWhoListens) {
  const auto heard = [](const TlsFiles& tls) {
    const Credentials credentials{.secret = Secret::random(), .tls = tls};
    const KvServer server({"127.0.0.1", 0}, {.credentials = credentials});
    Eavesdropper ear({"127.0.0.1", server.port()});
    TcpKv kv(ear.endpoint(), soon(), {.credentials = credentials});
    kv.set("some key", "some value", soon());
    return ear.finish();
  };
  EXPECT_THAT(heard({}), HasSubstr("some value"));
  const std::string secret = heard(node());
  EXPECT_EQ(secret.find("some"), std::string::npos);
  EXPECT_EQ(secret.find("ARGOSY"), std::string::npos);
}

TEST(Tls, KeepsOutWhoHasNoCertificateOfTheAuthority) {
  const TestAuthority other;
  const Credentials ours{.tls = node()};
  const Credentials foreign{.tls = other.issue("stranger")};
  const KvServer server({"127.0.0.1", 0}, {.credentials = ours});
  const Endpoint endpoint{"127.0.0.1", server.port()};
  EXPECT_THAT(
      message_of<StoreError>(
          [&] { TcpKv(endpoint, soon(), {.credentials = foreign}); }),
      AllOf(HasSubstr(endpoint.text()), HasSubstr("TLS")));
  // It trusts us, but we do not trust it.
  TlsFiles half = foreign.tls;
  half.ca = node().ca;
  EXPECT_THAT(
      message_of<StoreError>([&] {
        TcpKv kv(endpoint, soon(), {.credentials = {.tls = half}});
        kv.set("k", "1", soon());
      }),
      HasSubstr(endpoint.text()));
  // One without TLS.
  EXPECT_THROW(TcpKv(endpoint, Deadline::after(2s)), Error);
  EXPECT_EQ(server.counts().proven, 0u);
  TcpKv(endpoint, soon(), {.credentials = ours}).set("k", "1", soon());
}

TEST(Tls, DoesNotReplaceTheSecret) {
  const KvServer server(
      {"127.0.0.1", 0},
      {.credentials = {.secret = Secret::random(), .tls = node()}});
  EXPECT_THAT(
      message_of<StoreError>([&] {
        TcpKv(
            {"127.0.0.1", server.port()},
            soon(),
            {.credentials = {.secret = Secret::random(), .tls = node()}});
      }),
      HasSubstr("does not know the secret"));
}

TEST(Tls, NamesAFileThatCannotBeUsed) {
  TlsFiles files = node();
  files.key = "/no/such.key";
  EXPECT_THAT(
      message_of<InvalidArgument>([&] {
        KvServer({"127.0.0.1", 0}, {.credentials = {.tls = files}});
      }),
      HasSubstr("/no/such.key"));
}

// Calls etcd's gateway as its administrator.
class Administrator {
 public:
  explicit Administrator(const Endpoint& endpoint)
      : base_(str("https://", endpoint.text(), "/v3/")) {}

  nlohmann::json post(const std::string& path, const nlohmann::json& request) {
    const std::string body = request.dump();
    const auto result = http_.send(
        {.method = "POST",
         .url = base_ + path,
         .headers = headers_,
         .body = body,
         .certificates = node().ca,
         .client_certificate = node().certificate,
         .client_key = node().key},
        soon());
    EXPECT_EQ(result.status, 200) << path << result.failure << result.body;
    return nlohmann::json::parse(result.body, nullptr, false);
  }

  void add_user(const std::string& name, const std::string& role) {
    post("auth/user/add", {{"name", name}, {"password", name + "-pw"}});
    post("auth/role/add", {{"name", role}});
    post("auth/user/grant", {{"user", name}, {"role", role}});
  }

 private:
  const std::string base_;
  std::vector<std::string> headers_;
  HttpClient http_;
};

std::string range_after(std::string prefix) {
  ++prefix.back();
  return prefix;
}

TEST(EtcdTls, NeedsACertificateAUserAndItsRole) {
  EtcdProcess etcd(node());
  const std::string url = str("etcds://", etcd.endpoint().text(), "/jobs");
  Administrator admin(etcd.endpoint());
  admin.add_user("root", "root");
  admin.add_user("trainer", "training");
  for (const std::string prefix : {"jobs/", ".argosy-changes/"}) {
    admin.post(
        "auth/role/grant",
        {{"name", "training"},
         {"perm",
          {{"permType", "READWRITE"},
           {"key", base64_encode(prefix)},
           {"range_end", base64_encode(range_after(prefix))}}}});
  }
  admin.post("auth/enable", nlohmann::json::object());

  const Login login{"trainer", "trainer-pw"};
  const auto kv = open_kv(url, soon(), {.tls = node(), .etcd = login});
  kv->set("k", "1", soon());
  EXPECT_EQ(kv->add("n", 2, soon()), 2);
  std::jthread setter([&] { kv->set("late", "1", soon()); });
  kv->wait({"late"}, soon());
  EXPECT_TRUE(kv->grant(5s, soon())->alive());

  // Without the user, without the password, without the certificate, elsewhere.
  EXPECT_THROW(open_kv(url, Deadline::after(2s), {.tls = node()}), StoreError);
  EXPECT_THAT(
      message_of<StoreError>([&] {
        open_kv(url, soon(), {.tls = node(), .etcd = {"trainer", "wrong"}});
      }),
      AllOf(HasSubstr("authentication failed"), Not(HasSubstr("wrong"))));
  EXPECT_THROW(
      open_kv(url, Deadline::after(500ms), {.tls = {.ca = node().ca}}), Error);
  const std::string elsewhere =
      str("etcds://", etcd.endpoint().text(), "/other");
  EXPECT_THAT(
      message_of<StoreError>([&] {
        open_kv(elsewhere, soon(), {.tls = node(), .etcd = login})
            ->set("k", "1", soon());
      }),
      HasSubstr("permission denied"));

  // A restart forgets tokens; the next call gets a new one.
  etcd.stop();
  etcd.start();
  EXPECT_EQ(kv->get("k", soon()), "1");
}

} // namespace
} // namespace argosy::store
