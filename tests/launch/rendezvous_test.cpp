// The rendezvous over a store in memory: cases that are hard to time with
// processes.

#include "argosy/launch/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>

#include "argosy/common/error.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/mem_kv.h"
#include "tests/store/expect.h"

namespace argosy::launch {
namespace {

using argosy::testing::message_of;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A store that cannot be looked at while `fails`.
class FailingKv final : public store::Kv {
 public:
  explicit FailingKv(std::shared_ptr<store::Kv> kv) : kv_(std::move(kv)) {}

  void set(
      const std::string& key,
      const std::string& value,
      Deadline deadline,
      const store::Lease* lease) override {
    kv_->set(key, value, deadline, lease);
  }
  std::optional<std::string> get(
      const std::string& key, Deadline deadline) override {
    return kv_->get(key, deadline);
  }
  std::int64_t add(
      const std::string& key, std::int64_t amount, Deadline deadline) override {
    return kv_->add(key, amount, deadline);
  }
  store::CompareSet compare_set(
      const std::string& key,
      const std::optional<std::string>& expected,
      const std::string& desired,
      Deadline deadline) override {
    return kv_->compare_set(key, expected, desired, deadline);
  }
  void wait(const std::vector<std::string>& keys, Deadline deadline) override {
    kv_->wait(keys, deadline);
  }
  bool erase(const std::string& key, Deadline deadline) override {
    return kv_->erase(key, deadline);
  }
  std::map<std::string, std::string> list(
      const std::string& prefix, Deadline deadline) override {
    if (fails) {
      ++failures;
      throw StoreError("no answer");
    }
    return kv_->list(prefix, deadline);
  }
  std::unique_ptr<store::Lease> grant(
      milliseconds ttl, Deadline deadline) override {
    return kv_->grant(ttl, deadline);
  }

  std::atomic<bool> fails{false};
  std::atomic<int> failures{0};

 private:
  const std::shared_ptr<store::Kv> kv_;
};

// A node of a job of two, in this process.
class TestNode {
 public:
  TestNode(
      std::shared_ptr<store::Kv> kv,
      RunOptions options,
      std::shared_ptr<store::KvServer> server = nullptr)
      : options_(std::move(options)),
        membership_(make_rendezvous(
            options_,
            {.url = "mem://test",
             .address = "127.0.0.1",
             .server = std::move(server),
             .kv = std::move(kv)},
            interrupt_)) {}

  Membership* operator->() { return membership_.get(); }

 private:
  SignalSource signals_{{}};
  Interrupt interrupt_{signals_, {}, -1};
  RunOptions options_;
  std::unique_ptr<Membership> membership_;
};

RunOptions two_nodes(int max_restarts = 0) {
  RunOptions options;
  options.min_nodes = options.max_nodes = 2;
  options.max_restarts = max_restarts;
  options.rdzv.timeout = milliseconds(10'000);
  options.rdzv.keep_alive = milliseconds(100);
  return options;
}

Failure failure(const std::string& message) {
  return {
      .host = "h",
      .role = "default",
      .pid = 1,
      .status = {.exit_code = 3},
      .time = {},
      .message = message};
}

std::pair<NodeAssignment, NodeAssignment> join_both(TestNode& a, TestNode& b) {
  auto other = std::async(std::launch::async, [&] { return b->join(); });
  NodeAssignment own = a->join();
  return {own, other.get()};
}

TEST(Rendezvous, GivesAllTheSameAssignment) {
  const auto kv = std::make_shared<store::MemKv>();
  TestNode a(kv, two_nodes());
  TestNode b(kv, two_nodes());
  auto [first, second] = join_both(a, b);
  EXPECT_NE(first.node_rank, second.node_rank);
  second.node_rank = first.node_rank;
  EXPECT_EQ(first, second);
  EXPECT_NE(first.master.port, 0);
}

TEST(Rendezvous, KeepsTheFirstFailureAndCountsRestarts) {
  const auto kv = std::make_shared<store::MemKv>();
  TestNode a(kv, two_nodes(1));
  TestNode b(kv, two_nodes(1));
  join_both(a, b);
  EXPECT_FALSE(a->watch()->must_stop());
  b->report(failure("first"));
  a->report(failure("second"));
  EXPECT_TRUE(a->watch()->must_stop());
  EXPECT_EQ(a->root_cause(), b->root_cause());
  EXPECT_EQ(a->root_cause()->message, "first");
  EXPECT_EQ(join_both(a, b).first.attempt, 1);
  EXPECT_FALSE(a->watch()->must_stop());
}

TEST(Rendezvous, IsDoneWhenAllAre) {
  const auto kv = std::make_shared<store::MemKv>();
  TestNode a(kv, two_nodes());
  TestNode b(kv, two_nodes());
  join_both(a, b);
  EXPECT_FALSE(a->watch()->all_done());
  EXPECT_TRUE(b->watch()->all_done());
  EXPECT_TRUE(a->watch()->all_done());
  b->leave(); // done, so it is not missed
  EXPECT_FALSE(a->watch()->must_stop());
}

TEST(Rendezvous, IsOverForAllWhenItsHostGivesUp) {
  const auto kv = std::make_shared<store::MemKv>();
  RunOptions options = two_nodes();
  options.min_nodes = options.max_nodes = 3;
  TestNode b(kv, options);
  auto other = std::async(std::launch::async, [&] { return b->join(); });
  options.rdzv.timeout = milliseconds(100);
  const auto server =
      std::make_shared<store::KvServer>(Endpoint{"127.0.0.1", 0});
  TestNode host(kv, options, server);
  EXPECT_THROW(host->join(), TimeoutError);
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { other.get(); }),
      HasSubstr("nodes came within 100 ms"));
}

// The store ends with its host: one call that fails must not take it away from
// a node that has yet to read how the job ended.
TEST(Rendezvous, ItsHostStaysForTheOthersThoughACallFails) {
  const auto kv = std::make_shared<store::MemKv>();
  const auto failing = std::make_shared<FailingKv>(kv);
  const auto server =
      std::make_shared<store::KvServer>(Endpoint{"127.0.0.1", 0});
  RunOptions options = two_nodes();
  options.grace = milliseconds(20'000);
  TestNode host(failing, options, server);
  TestNode b(kv, options);
  join_both(host, b);
  failing->fails = true;
  auto left = std::async(std::launch::async, [&] { host->leave(); });
  while (failing->failures == 0) {
    ASSERT_EQ(left.wait_for(milliseconds(1)), std::future_status::timeout);
  }
  failing->fails = false;
  EXPECT_EQ(left.wait_for(milliseconds(300)), std::future_status::timeout);
  b->leave();
  EXPECT_EQ(left.wait_for(milliseconds(15'000)), std::future_status::ready);
}

TEST(Rendezvous, TurnsAwayAThirdNode) {
  const auto kv = std::make_shared<store::MemKv>();
  TestNode a(kv, two_nodes());
  TestNode b(kv, two_nodes());
  join_both(a, b);
  TestNode c(kv, two_nodes());
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { c->join(); }),
      HasSubstr("has all its nodes already"));
}

TEST(Rendezvous, TakesAThirdNodeForOneThatIsGone) {
  const auto kv = std::make_shared<store::MemKv>();
  TestNode a(kv, two_nodes(1));
  auto b = std::make_unique<TestNode>(kv, two_nodes(1));
  join_both(a, *b);
  TestNode c(kv, two_nodes(1));
  auto third = std::async(std::launch::async, [&] { return c->join(); });
  (*b)->leave();
  a->watch()->must_stop(); // notices, and reports it
  EXPECT_TRUE(a->watch()->must_stop());
  EXPECT_THAT(a->root_cause()->message, HasSubstr("gone"));
  EXPECT_EQ(a->join().attempt, 1);
  EXPECT_EQ(third.get().attempt, 1);
}

TEST(Rendezvous, ForgetsAJobThatIsOver) {
  const auto kv = std::make_shared<store::MemKv>();
  {
    TestNode a(kv, two_nodes());
    TestNode b(kv, two_nodes());
    join_both(a, b);
    a->report(failure("old"));
    a->leave();
    b->leave();
  }
  TestNode a(kv, two_nodes());
  TestNode b(kv, two_nodes());
  EXPECT_EQ(join_both(a, b).first.attempt, 0);
  EXPECT_FALSE(a->root_cause());
}

} // namespace
} // namespace argosy::launch
