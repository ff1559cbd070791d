#include "argosy/store/mem_kv.h"

#include <latch>
#include <thread>

#include "argosy/common/error.h"
#include "tests/store/expect.h"

namespace argosy::store {
namespace {

using argosy::testing::message_of;
using argosy::testing::soon;
using ::testing::HasSubstr;

TEST(MemKv, AbortEndsWaitsAndAllLaterCalls) {
  MemKv kv;
  const auto lease = kv.grant(std::chrono::seconds(1), soon());
  std::latch started(4);
  std::vector<std::jthread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      started.count_down();
      EXPECT_THAT(
          message_of<PeerLost>([&] { kv.wait({"never"}, soon()); }),
          HasSubstr("rank 3 failed"));
    });
  }
  started.wait();
  const auto begin = Deadline::Clock::now();
  kv.abort("rank 3 failed");
  kv.abort("rank 2 failed");
  waiters.clear();
  EXPECT_LT(Deadline::Clock::now() - begin, std::chrono::seconds(2));

  EXPECT_THROW(kv.set("k", "", soon()), PeerLost);
  EXPECT_THROW(kv.get("k", soon()), PeerLost);
  EXPECT_THROW(kv.add("k", 1, soon()), PeerLost);
  EXPECT_THROW(kv.compare_set("k", "", "", soon()), PeerLost);
  EXPECT_THROW(kv.wait({}, soon()), PeerLost);
  EXPECT_THROW(kv.erase("k", soon()), PeerLost);
  EXPECT_THROW(kv.list("", soon()), PeerLost);
  EXPECT_THROW(kv.grant(std::chrono::seconds(1), soon()), PeerLost);
}

TEST(MemKv, ANameIsOneStoreWhileAnyoneHoldsIt) {
  auto first = MemKv::named("one");
  first->set("k", "1", soon());
  EXPECT_EQ(MemKv::named("one"), first);
  EXPECT_NE(MemKv::named("two"), first);
  auto second = MemKv::named("one");
  first.reset();
  EXPECT_EQ(MemKv::named("one")->get("k", soon()), "1");
  second.reset();
  EXPECT_EQ(MemKv::named("one")->get("k", soon()), std::nullopt);
}

} // namespace
} // namespace argosy::store
