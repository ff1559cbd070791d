// What etcd adds to a Kv: restarts, lost answers, foreign servers.
#include "argosy/store/etcd_kv.h"

#include <barrier>
#include <cstdlib>
#include <latch>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/store/open_kv.h"
#include "tests/store/etcd_process.h"
#include "tests/store/expect.h"
#include "tests/store/lossy_proxy.h"
#include "tests/store/servers.h"

namespace argosy::store {
namespace {

using namespace std::chrono_literals;
using argosy::testing::EtcdProcess;
using argosy::testing::ExpectTakes;
using argosy::testing::ForeignServer;
using argosy::testing::kHttp400;
using argosy::testing::LossyProxy;
using argosy::testing::message_of;
using argosy::testing::shared_etcd;
using argosy::testing::soon;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Endpoints = std::vector<Endpoint>;

TEST(EtcdKv, StoresKeysUnderThePrefix) {
  const Endpoints etcd = {shared_etcd().endpoint()};
  EtcdKv(etcd, "outer").set("inner/k", "1", soon());
  EXPECT_EQ(EtcdKv(etcd, "outer/inner").get("k", soon()), "1");
  EXPECT_EQ(EtcdKv(etcd, "out").get("er/inner/k", soon()), std::nullopt);
  EXPECT_THROW(EtcdKv(etcd, ""), InvalidArgument);
  EXPECT_THROW(EtcdKv({}, "p"), InvalidArgument);
}

TEST(EtcdKv, LeavesNoMarkersBehindButTheLast) {
  const Endpoints etcd = {shared_etcd().endpoint()};
  EtcdKv markers(etcd, ".argosy-changes");
  const auto before = markers.list("", soon()).size();
  EtcdKv kv(etcd, "markers");
  for (int i = 0; i < 10; ++i) {
    kv.set("k", "", soon());
    kv.add("n", 1, soon());
    kv.erase("k", soon());
    EXPECT_FALSE(kv.erase("k", soon()));
    EXPECT_FALSE(kv.compare_set("n", "x", "y", soon()).swapped);
  }
  EXPECT_EQ(markers.list("", soon()).size(), before + 1);
}

TEST(EtcdKv, ChangesOnceAlthoughAnswersGetLost) {
  LossyProxy proxy(shared_etcd().endpoint(), 2);
  EtcdKv kv({proxy.endpoint()}, "lossy");
  EtcdKv direct({shared_etcd().endpoint()}, "lossy");
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(kv.add("n", 1, soon()), i);
  }
  EXPECT_EQ(direct.get("n", soon()), "10");
  const auto result = kv.compare_set("n", "10", "x", soon());
  EXPECT_TRUE(result.swapped);
  EXPECT_EQ(result.value, "x");
  EXPECT_TRUE(kv.compare_set("new", std::nullopt, "y", soon()).swapped);
  EXPECT_FALSE(kv.compare_set("new", std::nullopt, "z", soon()).swapped);
  EXPECT_TRUE(kv.erase("n", soon()));
  EXPECT_FALSE(kv.erase("n", soon()));
  kv.set("s", "1", soon());
  EXPECT_EQ(direct.get("s", soon()), "1");
  EXPECT_GE(proxy.num_lost(), 2 * 15);
}

TEST(EtcdKv, AChangeThatOthersUndidIsNotMadeAgain) {
  EtcdKv direct({shared_etcd().endpoint()}, "undone");
  LossyProxy proxy(shared_etcd().endpoint(), 1, [&] {
    EXPECT_TRUE(direct.erase("k", soon()));
  });
  EtcdKv kv({proxy.endpoint()}, "undone");
  kv.set("k", "1", soon());
  EXPECT_EQ(direct.get("k", soon()), std::nullopt);
  EXPECT_EQ(kv.add("k", 1, soon()), 1);
  EXPECT_EQ(direct.get("k", soon()), std::nullopt);
  EXPECT_TRUE(kv.compare_set("k", std::nullopt, "1", soon()).swapped);
  EXPECT_EQ(direct.get("k", soon()), std::nullopt);
}

TEST(EtcdKv, CallsMadeWhileEtcdIsDownSucceedAfterItsRestart) {
  EtcdProcess etcd;
  EtcdKv kv({etcd.endpoint()}, "restart");
  kv.set("old", "1", soon());
  const auto lease = kv.grant(5s, soon());
  kv.set("leased", "1", soon(), lease.get());
  etcd.stop();
  std::latch calling(5);
  std::vector<std::jthread> callers;
  const auto call = [&](auto&& what) {
    callers.emplace_back([&calling, what] {
      calling.count_down();
      what();
    });
  };
  call([&] { kv.set("new", "2", soon()); });
  call([&] { EXPECT_EQ(kv.get("old", soon()), "1"); });
  call([&] { EXPECT_EQ(kv.add("n", 5, soon()), 5); });
  call([&] { kv.wait({"old", "new"}, soon()); });
  call([&] { EXPECT_TRUE(kv.compare_set("c", {}, "3", soon()).swapped); });
  calling.wait();
  etcd.start();
  callers.clear();
  EXPECT_EQ(kv.list("", soon()).size(), 5u);
  EXPECT_TRUE(lease->alive());
}

TEST(EtcdKv, AWaitSurvivesARestart) {
  EtcdProcess etcd;
  EtcdKv kv({etcd.endpoint()}, "restart");
  std::jthread waiter([&] { kv.wait({"a", "b"}, soon()); });
  kv.set("a", "", soon());
  etcd.stop();
  etcd.start();
  kv.set("b", "", soon());
}

TEST(EtcdKv, CountsOnceWhileEtcdIsRestarted) {
  constexpr int kThreads = 4;
  constexpr int kAdds = 40;
  EtcdProcess etcd;
  std::atomic<int> num_added = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      EtcdKv kv({etcd.endpoint()}, "count");
      for (int i = 0; i < kAdds; ++i) {
        kv.add("n", 1, soon());
        ++num_added;
        num_added.notify_all();
      }
    });
  }
  // In the midst of the adds, twice.
  for (const int when : {kThreads * kAdds / 4, kThreads * kAdds / 2}) {
    for (int n = num_added; n < when; n = num_added) {
      num_added.wait(n);
    }
    etcd.stop();
    etcd.start();
  }
  threads.clear();
  EtcdKv kv({etcd.endpoint()}, "count");
  EXPECT_EQ(kv.get("n", soon()), std::to_string(kThreads * kAdds));
}

TEST(EtcdKv, TurnsToTheNextEndpoint) {
  const ReservedPort nobody;
  EtcdKv kv(
      {{"127.0.0.1", nobody.port()}, shared_etcd().endpoint()}, "endpoints");
  kv.set("k", "1", soon());
  kv.wait({"k"}, soon());
  EXPECT_EQ(kv.get("k", soon()), "1");
}

TEST(EtcdKv, IgnoresProxyVariables) {
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  EtcdKv kv({shared_etcd().endpoint()}, "proxy");
  EXPECT_NO_THROW(kv.ping(soon()));
  ::unsetenv("http_proxy");
}

TEST(EtcdKv, NamesAServerThatIsNotThere) {
  const ReservedPort nobody;
  const Endpoint endpoint{"127.0.0.1", nobody.port()};
  EtcdKv kv({endpoint}, "p");
  const auto limit = [] { return Deadline::after(300ms); };
  const auto names_it = AllOf(
      HasSubstr(endpoint.text()),
      HasSubstr("300 ms"),
      HasSubstr("onnect to server"));
  {
    const ExpectTakes takes(300ms);
    EXPECT_THAT(
        message_of<TimeoutError>([&] { kv.set("k", "", limit()); }), names_it);
  }
  const ExpectTakes takes(300ms);
  EXPECT_THAT(
      message_of<TimeoutError>([&] { kv.wait({"gone"}, limit()); }),
      AllOf(names_it, HasSubstr("'gone'")));
}

TEST(EtcdKv, GivesUpOnASilentServer) {
  const ForeignServer silent("");
  const ExpectTakes takes(300ms);
  EXPECT_THAT(
      message_of<TimeoutError>([&] {
        EtcdKv({silent.endpoint()}, "p").ping(Deadline::after(300ms));
      }),
      HasSubstr(silent.endpoint().text()));
}

TEST(EtcdKv, NamesAForeignServer) {
  const std::string json =
      "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n"
      "{\"ok\": \"yes\"}";
  for (const std::string& answer : {kHttp400, json}) {
    const ForeignServer http(answer);
    EXPECT_THAT(
        message_of<StoreError>(
            [&] { EtcdKv({http.endpoint()}, "p").ping(soon()); }),
        AllOf(HasSubstr(http.endpoint().text()), HasSubstr("expected etcd")));
  }
}

TEST(EtcdKv, NamesAHostThatDoesNotResolve) {
  EXPECT_THAT(
      message_of<StoreError>(
          [] { open_kv("etcd://no-such-host.invalid:2379/p", soon()); }),
      HasSubstr("no-such-host.invalid:2379"));
}

TEST(EtcdKv, PassesOnARefusal) {
  EtcdKv kv({shared_etcd().endpoint()}, "refused");
  EXPECT_THAT(
      message_of<StoreError>(
          [&] { kv.set("k", std::string(7 << 18, 'x'), soon()); }),
      HasSubstr("too large"));
}

TEST(EtcdKv, OpensByUrl) {
  const std::string url =
      str("etcd://", shared_etcd().endpoint().text(), "/by/url");
  open_kv(url, soon())->set("k", "1", soon());
  EXPECT_EQ(EtcdKv({shared_etcd().endpoint()}, "by/url").get("k", soon()), "1");
}

} // namespace
} // namespace argosy::store
