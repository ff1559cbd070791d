// Addresses that members of a group exchange are believed only if a member
// signed them; and what listens for the others listens on loopback.
#include "argosy/comm/backend/signed_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <mutex>
#include <thread>

#include "argosy/comm/backend/forwarding_store.h"
#include "argosy/comm/gloo/gloo_backend.h"
#include "argosy/common/error.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/mem_kv.h"
#include "tests/store/expect.h"
#include "tests/support/listeners.h"

namespace argosy::comm {
namespace {

using namespace std::chrono_literals;
using argosy::testing::is_loopback_word;
using argosy::testing::listening_addresses;
using argosy::testing::message_of;
using argosy::testing::soon;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ResultOf;
using Bytes = std::vector<std::uint8_t>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

StorePtr memory_store() {
  return c10::make_intrusive<store::KvStore>(
      std::make_shared<store::MemKv>(), 20s);
}

Members member(
    int rank, const StorePtr& store, std::optional<store::Secret> key) {
  return {
      .group = "g",
      .rank = rank,
      .global_ranks = {0, 1},
      .store = store,
      .deadline = soon(),
      .key = std::move(key)};
}

TEST(SignedStore, ReadsWhatMembersWrote) {
  const auto key = store::Secret::random();
  const auto plain = memory_store();
  const auto one = signed_store(member(0, plain, key));
  const auto two = signed_store(member(1, plain, key));
  one->set("a", Bytes{1, 2, 3});
  EXPECT_EQ(two->get("a"), (Bytes{1, 2, 3}));
  one->set("empty", {});
  EXPECT_EQ(two->get("empty"), Bytes{});
  EXPECT_EQ(one->compareSet("c", {}, Bytes{7}), Bytes{7});
  EXPECT_EQ(two->compareSet("c", {}, Bytes{8}), Bytes{7});
  EXPECT_EQ(two->compareSet("c", Bytes{7}, Bytes{8}), Bytes{8});
  EXPECT_EQ(two->get("c"), Bytes{8});
  EXPECT_EQ(signed_store(member(0, plain, std::nullopt)), plain);
}

TEST(SignedStore, RefusesWhatNoMemberWrote) {
  const auto key = store::Secret::random();
  const auto plain = memory_store();
  const auto members = signed_store(member(0, plain, key));
  const auto others = signed_store(member(0, plain, store::Secret::random()));
  const auto refused = [&](const std::string& name) {
    EXPECT_THAT(
        message_of<StoreError>([&] { members->get(name); }),
        HasSubstr("\"" + name + "\""));
  };
  plain->set("plain", Bytes(100, 'x'));
  refused("plain");
  plain->set("short", Bytes{1});
  refused("short");
  others->set("other", Bytes{1});
  refused("other");
  // A member's value, under another key, and with another byte.
  members->set("a", Bytes{1, 2, 3});
  Bytes value = plain->get("a");
  plain->set("moved", value);
  refused("moved");
  value.back() ^= 1;
  plain->set("a", value);
  refused("a");
}

// A store that calls somebody before it sets a key.
class HookedStore final : public ForwardingStore {
 public:
  using OnSet = std::function<void(const std::string& key, Bytes& value)>;

  HookedStore(StorePtr store, OnSet on_set)
      : ForwardingStore(std::move(store)), on_set_(std::move(on_set)) {}

  void set(const std::string& key, const Bytes& value) override {
    Bytes changed = value;
    on_set_(key, changed);
    inner()->set(key, changed);
  }

 private:
  const OnSet on_set_;
};

// Whether a key holds what Gloo's listeners are told by, which exist then.
bool is_of_gloo(const std::string& key) {
  return key.find("address") == std::string::npos;
}

TEST(GlooTrust, ListensOnLoopbackIfAllAreOnOneHost) {
  const auto key = store::Secret::random();
  const auto plain = memory_store();
  std::mutex mutex;
  std::vector<std::string> seen;
  const auto watched = c10::make_intrusive<HookedStore>(
      plain, [&](const std::string& name, Bytes&) {
        const auto now = listening_addresses(::getpid());
        const std::lock_guard lock(mutex);
        if (is_of_gloo(name)) {
          seen.insert(seen.end(), now.begin(), now.end());
        }
      });
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back(
          [&, rank] { gloo::make_gloo_backend(member(rank, watched, key)); });
    }
  }
  EXPECT_THAT(seen, Not(IsEmpty()));
  EXPECT_THAT(seen, Each(ResultOf(is_loopback_word, true)));
}

TEST(GlooTrust, ConnectsToNoAddressThatNoMemberSigned) {
  const auto store = memory_store();
  // One that everybody may write to, in which somebody replaces the addresses
  // of rank 0.
  const auto forged = c10::make_intrusive<HookedStore>(
      store, [](const std::string& name, Bytes& value) {
        value.back() ^= is_of_gloo(name) ? 1 : 0;
      });
  const auto key = store::Secret::random();
  std::jthread rank_0([&] {
    // Reaches nobody, since rank 1 does not come.
    Members members = member(0, forged, key);
    members.deadline = Deadline::after(3s);
    EXPECT_THROW(gloo::make_gloo_backend(members), std::exception);
  });
  EXPECT_THAT(
      message_of<StoreError>(
          [&] { gloo::make_gloo_backend(member(1, store, key)); }),
      HasSubstr("not set by a member"));
}

} // namespace
} // namespace argosy::comm
