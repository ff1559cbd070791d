// What every Kv does, run over each of them.
#include "argosy/store/kv.h"

#include <atomic>
#include <functional>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/store/etcd_kv.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/mem_kv.h"
#include "argosy/store/renewed_lease.h"
#include "argosy/store/tcp_kv.h"
#include "tests/store/etcd_process.h"
#include "tests/store/expect.h"

namespace argosy::store {
namespace {

using namespace std::chrono_literals;
using argosy::testing::ExpectTakes;
using argosy::testing::message_of;
using argosy::testing::shared_etcd;
using argosy::testing::soon;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// An empty store, of which several clients can be made.
struct Place {
  virtual ~Place() = default;
  virtual std::shared_ptr<Kv> client() = 0;
};

struct MemPlace : Place {
  std::shared_ptr<Kv> client() override { return kv; }
  std::shared_ptr<Kv> kv = std::make_shared<MemKv>();
};

struct TcpPlace : Place {
  std::shared_ptr<Kv> client() override {
    return std::make_shared<TcpKv>(
        Endpoint{"127.0.0.1", server.port()}, soon());
  }
  KvServer server{{"127.0.0.1", 0}};
};

struct EtcdPlace : Place {
  EtcdPlace() {
    static int num_places = 0;
    prefix = str("place", ++num_places);
  }
  std::shared_ptr<Kv> client() override {
    return std::make_shared<EtcdKv>(
        std::vector{shared_etcd().endpoint()}, prefix);
  }
  std::string prefix;
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Place>()> make;
};

class KvTest : public ::testing::TestWithParam<Kind> {
 protected:
  const std::unique_ptr<Place> place_ = GetParam().make();
  const std::shared_ptr<Kv> kv_ = place_->client();
};

TEST_P(KvTest, GetsWhatWasSet) {
  EXPECT_EQ(kv_->get("a", soon()), std::nullopt);
  kv_->set("a", "1", soon());
  kv_->set("a", "2", soon());
  EXPECT_EQ(place_->client()->get("a", soon()), "2");
}

TEST_P(KvTest, KeepsAnyBytes) {
  const std::string nul("\0x\0", 3);
  const std::string odd = "\x01/\xff%20 \"\\\n'\xc3\xa9";
  const std::string big(1 << 20, '\xfe');
  kv_->set(odd, nul, soon());
  kv_->set(nul, "", soon());
  kv_->set("big", big, soon());
  EXPECT_EQ(kv_->get(odd, soon()), nul);
  EXPECT_EQ(kv_->get(nul, soon()), "");
  EXPECT_TRUE(kv_->get("big", soon()) == big);
  EXPECT_EQ(kv_->list("", soon()).size(), 3u);
}

TEST_P(KvTest, AddsFromManyThreads) {
  constexpr int kThreads = 6;
  constexpr int kAdds = 20;
  std::vector<std::set<std::int64_t>> seen(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([this, &mine = seen[t]] {
        const auto kv = place_->client();
        for (int i = 0; i < kAdds; ++i) {
          mine.insert(kv->add("n", 1, soon()));
        }
      });
    }
  }
  std::set<std::int64_t> all;
  for (const auto& mine : seen) {
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), kThreads * kAdds);
  EXPECT_EQ(*all.rbegin(), kThreads * kAdds);
  EXPECT_EQ(kv_->get("n", soon()), std::to_string(kThreads * kAdds));
  EXPECT_EQ(kv_->add("n", -200, soon()), kThreads * kAdds - 200);
}

TEST_P(KvTest, RefusesASumThatDoesNotFit) {
  kv_->set("n", "9223372036854775807", soon());
  EXPECT_THROW(kv_->add("n", 1, soon()), StoreError);
  EXPECT_EQ(kv_->add("n", -7, soon()), 9223372036854775800);
}

TEST_P(KvTest, RefusesToAddToText) {
  kv_->set("n", "abc", soon());
  EXPECT_THAT(
      message_of<StoreError>([&] { kv_->add("n", 1, soon()); }),
      AllOf(HasSubstr("'n'"), HasSubstr("'abc'")));
  EXPECT_EQ(kv_->get("n", soon()), "abc");
}

TEST_P(KvTest, ComparesAndSets) {
  auto result = kv_->compare_set("k", "x", "y", soon());
  EXPECT_FALSE(result.swapped);
  EXPECT_EQ(result.value, std::nullopt);

  result = kv_->compare_set("k", std::nullopt, "", soon());
  EXPECT_TRUE(result.swapped);
  EXPECT_EQ(result.value, "");

  result = kv_->compare_set("k", std::nullopt, "z", soon());
  EXPECT_FALSE(result.swapped);
  EXPECT_EQ(result.value, "");

  result = kv_->compare_set("k", "", "y", soon());
  EXPECT_TRUE(result.swapped);
  EXPECT_EQ(result.value, "y");
  EXPECT_EQ(kv_->get("k", soon()), "y");
}

TEST_P(KvTest, OnlyOneOfManyWinsCompareSet) {
  std::atomic<int> num_winners = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        const auto mine = std::to_string(t);
        const auto result =
            place_->client()->compare_set("leader", std::nullopt, mine, soon());
        num_winners += result.swapped ? 1 : 0;
        EXPECT_EQ(result.swapped, result.value == mine);
      });
    }
  }
  EXPECT_EQ(num_winners, 1);
}

TEST_P(KvTest, ErasesAndLists) {
  for (const char* key : {"a/1", "a/2", "b/1"}) {
    kv_->set(key, key, soon());
  }
  const std::map<std::string, std::string> expected = {
      {"a/1", "a/1"}, {"a/2", "a/2"}};
  EXPECT_EQ(kv_->list("a/", soon()), expected);
  EXPECT_TRUE(kv_->erase("a/1", soon()));
  EXPECT_FALSE(kv_->erase("a/1", soon()));
  EXPECT_EQ(kv_->list("a/", soon()).size(), 1u);
  EXPECT_TRUE(kv_->list("c", soon()).empty());
}

TEST_P(KvTest, WaitReturnsWhenTheLastKeyIsSet) {
  kv_->set("a", "", soon());
  std::atomic<bool> set_all = false;
  std::jthread waiter([&] {
    place_->client()->wait({"a", "b", "c"}, soon());
    EXPECT_TRUE(set_all);
  });
  const auto other = place_->client();
  other->add("c", 1, soon());
  set_all = true;
  other->compare_set("b", std::nullopt, "x", soon());
}

TEST_P(KvTest, WaitForNothingOrForPresentKeysReturnsAtOnce) {
  kv_->wait({}, Deadline::after(0ms));
  std::vector<std::string> keys;
  for (int i = 0; i < 250; ++i) { // more than fit into one request of etcd
    keys.push_back(str("key", i));
  }
  for (const std::string& key : keys) {
    kv_->set(key, "", soon());
  }
  kv_->wait(keys, soon());
  kv_->erase("key249", soon());
  EXPECT_THAT(
      message_of<TimeoutError>(
          [&] { kv_->wait(keys, Deadline::after(100ms)); }),
      AllOf(HasSubstr("'key249'"), Not(HasSubstr("'key1'"))));
}

TEST_P(KvTest, WaitEndsAtTheDeadlineAndNamesTheMissingKeys) {
  kv_->set("here", "", soon());
  const ExpectTakes takes(300ms);
  EXPECT_THAT(
      message_of<TimeoutError>([&] {
        kv_->wait({"gone", "here", "lost"}, Deadline::after(300ms));
      }),
      AllOf(
          HasSubstr("2 keys"),
          HasSubstr("'gone', 'lost'"),
          HasSubstr("300 ms"),
          Not(HasSubstr("'here'"))));
}

TEST_P(KvTest, AWaitDoesNotHoldUpOtherThreads) {
  std::jthread waiter([&] { kv_->wait({"go"}, soon()); });
  kv_->set("other", "1", soon());
  EXPECT_EQ(kv_->get("other", soon()), "1");
  kv_->set("go", "", soon());
}

TEST_P(KvTest, LeasedKeysGoWithTheLease) {
  auto lease = kv_->grant(1s, soon());
  EXPECT_TRUE(lease->alive());
  kv_->set("leased", "1", soon(), lease.get());
  kv_->set("freed", "1", soon(), lease.get());
  kv_->set("freed", "2", soon());
  EXPECT_EQ(kv_->get("leased", soon()), "1");
  lease->release();
  EXPECT_FALSE(lease->alive());
  EXPECT_EQ(kv_->get("leased", soon()), std::nullopt);
  EXPECT_EQ(kv_->get("freed", soon()), "2");
  EXPECT_THROW(kv_->set("leased", "1", soon(), lease.get()), StoreError);

  lease = kv_->grant(1s, soon());
  kv_->set("leased", "1", soon(), lease.get());
  lease.reset();
  EXPECT_EQ(kv_->get("leased", soon()), std::nullopt);
}

TEST_P(KvTest, ALeaseMayOutliveItsClient) {
  auto client = place_->client();
  const auto lease = client->grant(1s, soon());
  client->set("leased", "1", soon(), lease.get());
  client.reset();
  EXPECT_TRUE(lease->alive());
  lease->release();
  EXPECT_EQ(kv_->get("leased", soon()), std::nullopt);
}

TEST_P(KvTest, RefusesALeaseOfAnotherStore) {
  MemKv other;
  const auto lease = other.grant(1s, soon());
  EXPECT_THROW(kv_->set("k", "", soon(), lease.get()), InvalidArgument);
  EXPECT_THROW(kv_->grant(0ms, soon()), InvalidArgument);
}

// Of the stores whose leases have a life of their own.
class RemoteKvTest : public KvTest {
 protected:
  // Until the key is gone; false after 10 s.
  bool vanishes(const std::string& key) {
    const auto limit = Deadline::after(10s);
    while (kv_->get(key, soon())) {
      if (limit.expired()) {
        return false;
      }
    }
    return true;
  }
};

TEST_P(RemoteKvTest, KeysOfAHolderThatDiedVanish) {
  const auto lease = kv_->grant(1s, soon());
  kv_->set("leased", "1", soon(), lease.get());
  dynamic_cast<RenewedLease&>(*lease).abandon();
  EXPECT_EQ(kv_->get("leased", soon()), "1");
  EXPECT_TRUE(vanishes("leased"));
}

TEST_P(RemoteKvTest, ALeaseIsKeptLongerThanItsTtl) {
  const auto kept = kv_->grant(1s, soon());
  const auto left = kv_->grant(1s, soon());
  kv_->set("kept", "1", soon(), kept.get());
  kv_->set("left", "1", soon(), left.get());
  dynamic_cast<RenewedLease&>(*left).abandon();
  // Both were granted with the same ttl, so its end is known by the other.
  EXPECT_TRUE(vanishes("left"));
  EXPECT_EQ(kv_->get("kept", soon()), "1");
  EXPECT_TRUE(kept->alive());
}

std::string kind_name(const ::testing::TestParamInfo<Kind>& info) {
  return info.param.name;
}

const Kind kMem{"mem", [] { return std::make_unique<MemPlace>(); }};
const Kind kTcp{"tcp", [] { return std::make_unique<TcpPlace>(); }};
const Kind kEtcd{"etcd", [] { return std::make_unique<EtcdPlace>(); }};

INSTANTIATE_TEST_SUITE_P(
    All, KvTest, ::testing::Values(kMem, kTcp, kEtcd), kind_name);
INSTANTIATE_TEST_SUITE_P(
    All, RemoteKvTest, ::testing::Values(kTcp, kEtcd), kind_name);

} // namespace
} // namespace argosy::store
