// The c10d contract over every URL that open() takes, and what it refuses.
#include "argosy/store/open.h"

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <atomic>
#include <functional>
#include <latch>
#include <set>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/store/kv_server.h"
#include "tests/store/etcd_process.h"
#include "tests/store/expect.h"
#include "tests/store/servers.h"

namespace argosy::store {
namespace {

using namespace std::chrono_literals;
using argosy::testing::ExpectTakes;
using argosy::testing::ForeignServer;
using argosy::testing::kHttp400;
using argosy::testing::message_of;
using argosy::testing::shared_etcd;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using Bytes = std::vector<std::uint8_t>;

Bytes bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

// An empty store at a URL, held by its first client.
class Place {
 public:
  explicit Place(const std::string& scheme) : url_(url_of(scheme)) {
    first_ = open(url_, {.serve = true, .prefix = "", .timeout = 20s});
  }

  const StorePtr& first() const { return first_; }
  StorePtr another(const std::string& prefix = "") const {
    return open(url_, {.serve = false, .prefix = prefix, .timeout = 20s});
  }

 private:
  std::string url_of(const std::string& scheme) const {
    static int num_places = 0;
    ++num_places;
    if (scheme == "mem") {
      return str("mem://place", num_places);
    }
    if (scheme == "file") {
      return str("file://", (folder_.path() / "store").string());
    }
    if (scheme == "tcp" || scheme == "c10d") {
      return str(scheme, "://127.0.0.1:", port_.port());
    }
    return str_format(
        "etcd://{}/place{}", shared_etcd().endpoint().text(), num_places);
  }

  TempDir folder_;
  ReservedPort port_;
  const std::string url_;
  StorePtr first_;
};

class OpenTest : public ::testing::TestWithParam<std::string> {
 protected:
  const Place place_{GetParam()};
  const StorePtr store_ = place_.first();
};

TEST_P(OpenTest, GetsWhatAnotherClientSet) {
  const Bytes nul = {0, 1, 0, 255};
  place_.another()->set("odd key/\"\n", nul);
  store_->set("empty", {});
  EXPECT_EQ(store_->get("odd key/\"\n"), nul);
  EXPECT_EQ(place_.another()->get("empty"), Bytes());
}

TEST_P(OpenTest, GetWaitsForTheKey) {
  const auto other = place_.another();
  std::atomic<bool> set = false;
  std::jthread reader([&] {
    EXPECT_EQ(other->get("late"), bytes("x"));
    EXPECT_TRUE(set);
  });
  set = true;
  store_->set("late", bytes("x"));
}

TEST_P(OpenTest, AddsFromManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kAdds = 10;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        const auto mine = place_.another();
        for (int i = 0; i < kAdds; ++i) {
          mine->add("n", 2);
        }
      });
    }
  }
  EXPECT_EQ(store_->add("n", 0), 2 * kThreads * kAdds);
  EXPECT_EQ(store_->get("n"), bytes(std::to_string(2 * kThreads * kAdds)));
}

TEST_P(OpenTest, ComparesAndSets) {
  EXPECT_EQ(store_->compareSet("k", bytes("x"), bytes("y")), bytes("x"));
  EXPECT_FALSE(store_->check({"k"}));
  EXPECT_EQ(store_->compareSet("k", {}, bytes("a")), bytes("a"));
  EXPECT_EQ(store_->compareSet("k", {}, bytes("b")), bytes("a"));
  EXPECT_EQ(store_->compareSet("k", bytes("z"), bytes("b")), bytes("a"));
  EXPECT_EQ(store_->compareSet("k", bytes("a"), bytes("b")), bytes("b"));
  EXPECT_EQ(store_->get("k"), bytes("b"));
}

TEST_P(OpenTest, ChecksCountsAndDeletes) {
  const auto before = store_->getNumKeys();
  store_->set("a", bytes("1"));
  store_->set("b", bytes("2"));
  EXPECT_EQ(store_->getNumKeys(), before + 2);
  EXPECT_TRUE(store_->check({"a", "b"}));
  EXPECT_TRUE(store_->deleteKey("a"));
  // c10d::FileStore says yes for any key.
  EXPECT_EQ(store_->deleteKey("a"), GetParam() == "file");
  EXPECT_FALSE(store_->check({"a", "b"}));
  EXPECT_EQ(store_->getNumKeys(), before + 1);
}

TEST_P(OpenTest, WaitEndsAtItsTimeOut) {
  store_->set("here", {});
  store_->wait({"here"});
  // c10d::FileStore counts whole seconds.
  const ExpectTakes takes(GetParam() == "file" ? 1000ms : 300ms);
  const auto wait = [&] { store_->wait({"here", "gone"}, 300ms); };
  if (GetParam() == "file") {
    EXPECT_ANY_THROW(wait());
  } else {
    EXPECT_THAT(
        message_of<TimeoutError>(wait),
        AllOf(HasSubstr("'gone'"), Not(HasSubstr("'here'"))));
  }
}

TEST_P(OpenTest, GlooReducesOverIt) {
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      auto options = c10d::ProcessGroupGloo::Options::create(20s);
      options->devices.push_back(
          c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
      c10d::ProcessGroupGloo group(place_.another(), rank, 2, options);
      std::vector<at::Tensor> tensors = {torch::full({5}, rank + 1)};
      group.allreduce(tensors)->wait();
      EXPECT_TRUE(torch::equal(tensors[0], torch::full({5}, 3)));
    });
  }
}

TEST_P(OpenTest, PrefixesKeys) {
  place_.another("job")->set("k", bytes("1"));
  EXPECT_EQ(store_->get("job/k"), bytes("1"));
  EXPECT_FALSE(store_->check({"k"}));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    OpenTest,
    ::testing::Values("mem", "file", "tcp", "c10d", "etcd"),
    [](const auto& place) { return place.param; });

OpenOptions within(std::chrono::milliseconds timeout, bool serve = false) {
  return {.serve = serve, .prefix = "", .timeout = timeout};
}

std::string tcp_url(const Endpoint& endpoint) {
  return str("tcp://", endpoint.text());
}

std::string c10d_url(const Endpoint& endpoint) {
  return str("c10d://", endpoint.text());
}

TEST(Open, NamesATcpHostThatIsNotThere) {
  const ReservedPort nobody;
  const Endpoint endpoint{"127.0.0.1", nobody.port()};
  const ExpectTakes takes(300ms);
  EXPECT_THAT(
      message_of<TimeoutError>([&] { open(tcp_url(endpoint), within(300ms)); }),
      HasSubstr(endpoint.text()));
}

TEST(Open, WaitsForATcpHostThatStartsLater) {
  const ReservedPort port;
  const std::string url = str("tcp://127.0.0.1:", port.port());
  std::latch trying(1);
  std::jthread client([&] {
    trying.count_down();
    EXPECT_EQ(open(url, within(20s))->get("k"), bytes("1"));
  });
  trying.wait();
  const auto host = open(url, within(20s, true));
  host->set("k", bytes("1"));
  client.join();
}

TEST(Open, NamesATcpPortThatIsTaken) {
  const KvServer taken({"", 0});
  const Endpoint endpoint{"127.0.0.1", taken.port()};
  EXPECT_THAT(
      message_of<StoreError>(
          [&] { open(tcp_url(endpoint), within(2s, true)); }),
      AllOf(HasSubstr(endpoint.text()), HasSubstr("already in use")));
}

TEST(Open, NamesAForeignTcpServer) {
  const ForeignServer http(kHttp400);
  EXPECT_THAT(
      message_of<StoreError>(
          [&] { open(tcp_url(http.endpoint()), within(5s)); }),
      AllOf(HasSubstr(http.endpoint().text()), HasSubstr("not an Argosy")));
  EXPECT_THAT(
      message_of<StoreError>(
          [&] { open(c10d_url(http.endpoint()), within(5s)); }),
      AllOf(HasSubstr(http.endpoint().text()), HasSubstr("not a c10d")));
  const KvServer ours({"127.0.0.1", 0});
  const Endpoint endpoint{"127.0.0.1", ours.port()};
  EXPECT_THAT(
      message_of<StoreError>([&] { open(c10d_url(endpoint), within(5s)); }),
      HasSubstr(endpoint.text()));
}

TEST(Open, GivesUpOnASilentTcpServer) {
  const ForeignServer silent("");
  const ExpectTakes takes(300ms);
  EXPECT_THAT(
      message_of<TimeoutError>(
          [&] { open(tcp_url(silent.endpoint()), within(300ms)); }),
      HasSubstr(silent.endpoint().text()));
}

TEST(Open, NamesAHostThatDoesNotResolve) {
  for (const bool serve : {false, true}) {
    EXPECT_THAT(
        message_of<StoreError>([&] {
          open("tcp://no-such-host.invalid:29500", within(500ms, serve));
        }),
        HasSubstr("no-such-host.invalid"));
  }
}

class OpenTcp : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(
    Schemes, OpenTcp, ::testing::Values("tcp", "c10d"), [](const auto& scheme) {
      return scheme.param;
    });

TEST_P(OpenTcp, IsSoundAfterAWaitThatTimedOut) {
  const ReservedPort port;
  const std::string url = str(GetParam(), "://127.0.0.1:", port.port());
  const auto host = open(url, within(20s, true));
  const auto client = open(url, within(20s));
  EXPECT_EQ(client->getTimeout(), 20s);
  EXPECT_THROW(client->wait({"late"}, 50ms), TimeoutError);
  host->set("late", bytes("1"));
  EXPECT_EQ(client->add("n", 1), 1);
  EXPECT_EQ(client->add("n", 1), 2);
  EXPECT_EQ(client->get("late"), bytes("1"));
}

TEST_P(OpenTcp, SaysThatItsHostIsGone) {
  const ReservedPort port;
  const std::string url = str(GetParam(), "://127.0.0.1:", port.port());
  auto host = open(url, within(20s, true));
  const auto client = open(url, within(1s));
  host.reset();
  EXPECT_THAT(
      message_of<StoreError>([&] {
        client->set("k", {});
        client->add("n", 1);
      }),
      HasSubstr(str("127.0.0.1:", port.port())));
  EXPECT_THROW(client->add("n", 1), Error);
}

TEST(Open, NamesAFolderThatIsMissing) {
  EXPECT_THAT(
      message_of<StoreError>(
          [] { open("file:///no/such/folder/store", within(1s)); }),
      HasSubstr("/no/such/folder"));
  EXPECT_THROW(open("fiel:///tmp/x", within(1s)), InvalidArgument);
}

TEST(Open, TheTimeOutOfTheUrlGoesFirst) {
  const auto store = open("mem://limits?timeout=200ms", within(20s));
  EXPECT_EQ(store->getTimeout(), 200ms);
  const ExpectTakes takes(200ms);
  EXPECT_THAT(
      message_of<TimeoutError>([&] { store->get("gone"); }),
      HasSubstr("'gone'"));
}

} // namespace
} // namespace argosy::store
