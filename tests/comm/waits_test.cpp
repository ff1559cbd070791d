// Nothing waits for ever: connecting a group, ending it, aborting it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/connect.h"
#include "argosy/comm/group.h"
#include "argosy/comm/member_watch.h"
#include "argosy/comm/ops.h"
#include "argosy/comm/patient_store.h"
#include "argosy/comm/watched_connect.h"
#include "argosy/comm/work.h"
#include "argosy/common/error.h"
#include "argosy/common/exit_note.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/text.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/process_identity.h"
#include "argosy/world/rendezvous.h"
#include "argosy/world/world.h"
#include "tests/support/thrown_by.h"
#include "tests/support/victim.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;
using argosy::testing::run_with_victim;
using argosy::testing::thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Clock = std::chrono::steady_clock;

// A store whose server is stopped: its calls return when the test is over.
class SilentStore final : public c10d::Store {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false; // guarded by mutex

    void pass() {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, 30s, [&] { return open; });
    }
    void let_all_pass() {
      const std::lock_guard lock(mutex);
      open = true;
      changed.notify_all();
    }
  };

  explicit SilentStore(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}

  using Bytes = std::vector<std::uint8_t>;
  void set(const std::string&, const Bytes&) override { gate_->pass(); }
  Bytes compareSet(const std::string&, const Bytes&, const Bytes&) override {
    gate_->pass();
    return {};
  }
  Bytes get(const std::string&) override {
    gate_->pass();
    return {};
  }
  std::int64_t add(const std::string&, std::int64_t) override { return 0; }
  bool deleteKey(const std::string&) override { return false; }
  bool check(const std::vector<std::string>&) override {
    gate_->pass();
    return false;
  }
  std::int64_t getNumKeys() override { return 0; }
  void wait(const std::vector<std::string>&) override { gate_->pass(); }
  void wait(const std::vector<std::string>&, const std::chrono::milliseconds&)
      override {
    gate_->pass();
  }

 private:
  const std::shared_ptr<Gate> gate_;
};

TEST(Waits, ConnectingEndsAtTheDeadlineWhenTheStoreDoesNotAnswer) {
  const auto gate = std::make_shared<SilentStore::Gate>();
  const auto began = Clock::now();
  EXPECT_THAT(
      thrown_by<TimeoutError>([&] {
        comm::connect_auto(
            {.group = "g",
             .rank = 0,
             .global_ranks = {0, 1},
             .store = c10::make_intrusive<SilentStore>(gate),
             .deadline = Deadline::after(200ms)});
      }),
      AllOf(HasSubstr("group g"), HasSubstr("200 ms"), HasSubstr("store")));
  EXPECT_LT(Clock::now() - began, 10s);
  gate->let_all_pass();
}

// The group's own limit, not the world's.
TEST(Waits, ConnectingEndsAtTheDeadlineOfTheGroup) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto group = new_group({0, 1}, "auto", 200ms);
    const auto began = Clock::now();
    if (world.rank() == 0) {
      EXPECT_THAT(
          thrown_by<TimeoutError>([&] { barrier(group); }),
          AllOf(HasSubstr("rank 1"), HasSubstr("200 ms")));
      EXPECT_LT(Clock::now() - began, 10s);
      world.store()->set("seen", {1});
    } else {
      world.store()->wait({"seen"});
    }
  });
}

// All have come, one makes no further step.
TEST(Waits, WhoIsBehindWhileTheGroupConnectsIsNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto watch_of = [&](int rank) {
    return comm::MemberWatch(
        {.group = "g",
         .rank = rank,
         .global_ranks = {4, 5, 6},
         .store = store,
         .deadline = Deadline::after(1s)},
        {});
  };
  comm::MemberWatch first = watch_of(0);
  comm::MemberWatch second = watch_of(1);
  comm::MemberWatch third = watch_of(2);
  const auto error_of_first = [&] {
    return thrown_by<TimeoutError>(
        [&] { std::rethrow_exception(first.time_is_up()); });
  };
  first.come();
  second.come();
  EXPECT_THAT(
      error_of_first(),
      HasSubstr("rank 6 of group g did not come to the group's first"));
  third.come();
  EXPECT_THAT(error_of_first(), HasSubstr("a rank of group g did not connect"));
  first.advance();
  first.advance();
  second.advance();
  third.advance();
  third.advance();
  EXPECT_THAT(error_of_first(), HasSubstr("rank 5 of group g did not connect"));
}

class Connecting : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Waits,
    Connecting,
    ::testing::Values("gloo", "c10d", "shm"),
    [](const auto& test) { return test.param; });

// In the middle: after it has said where it listens, before anybody has
// connected to it.
TEST_P(Connecting, ADeathInTheMiddleIsNoticed) {
  run_with_victim(3, 1, [](World& world) {
    const std::string backend = GetParam();
    const auto group = new_group({0, 1, 2}, backend, 40s);
    if (world.rank() == 1) {
      set_fault(
          backend == "gloo"       ? "gloo.published:kill"
              : backend == "c10d" ? "comm.come:kill"
                                  : "memory.mapped:kill");
    }
    const auto began = Clock::now();
    EXPECT_THAT(
        thrown_by<PeerLost>([&] { barrier(group); }), HasSubstr("rank 1"));
    EXPECT_LT(Clock::now() - began, 15s);
  });
}

// Two members, of which the other's process has ended: no pid is 0.
struct DeadOther {
  c10::intrusive_ptr<c10d::HashStore> store =
      c10::make_intrusive<c10d::HashStore>();
  comm::Members members{
      .group = "g",
      .rank = 0,
      .global_ranks = {0, 1},
      .store = store,
      .deadline = Deadline::after(40s)};
  std::shared_ptr<comm::MemberWatch> watch;

  DeadOther() {
    const auto words = split(own_process_identity(), ' ');
    const std::string dead = str(words[0], " 0 ", words[2]);
    store->set(process_key(1), {dead.begin(), dead.end()});
    watch = std::make_shared<comm::MemberWatch>(
        members, comm::WatchedStores{.world = store});
  }
};

// The transport waits where it cannot know, and does not look at the store.
TEST(Waits, ADeathIsNoticedWhileTheTransportWaits) {
  const DeadOther other;
  const auto gate = std::make_shared<SilentStore::Gate>();
  const auto began = Clock::now();
  EXPECT_THAT(
      thrown_by<PeerLost>([&] {
        comm::connect_watched(
            [gate](const comm::Members&) {
              gate->pass();
              return std::unique_ptr<comm::Backend>();
            },
            other.members,
            other.watch);
      }),
      HasSubstr("rank 1 of group g died before the group was connected"));
  EXPECT_LT(Clock::now() - began, 15s);
  gate->let_all_pass();
}

// As the backends do that a user registered: they connect on the thread of the
// operation, so that nobody else watches.
TEST(Waits, ADeathIsNoticedWhileTheStoreIsWaitedFor) {
  const DeadOther other;
  const auto patient = comm::make_patient_store(other.store, other.watch);
  const auto began = Clock::now();
  EXPECT_THAT(
      thrown_by<PeerLost>([&] { patient->get("address of rank 1"); }),
      HasSubstr("rank 1 of group g died before the group was connected"));
  EXPECT_LT(Clock::now() - began, 15s);
}

// Rank 0 has followed rank 1, in order, before this rank asks.
TEST(Waits, WhoDiedIsNamedBeforeThoseWhoFollowed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto words = split(own_process_identity(), ' ');
  const std::string dead = str(words[0], " 0 ", words[2]);
  for (const int rank : {0, 1}) {
    store->set(process_key(rank), {dead.begin(), dead.end()});
  }
  store->set(departure_key(0), {'1'});
  comm::MemberWatch watch(
      {.group = "g",
       .rank = 2,
       .global_ranks = {0, 1, 2},
       .store = store,
       .deadline = Deadline::after(40s)},
      {.world = store});
  for (const char* member : {"come/0", "come/1"}) {
    store->set(member, {'1'});
  }
  const std::string text =
      thrown_by<PeerLost>([&] { std::rethrow_exception(watch.trouble()); });
  EXPECT_THAT(
      text,
      HasSubstr(
          "rank 1 of group g died and rank 0 of group g has left before the "
          "group was connected: processes 0, 0 have ended"));
  EXPECT_EQ(ranks_blamed(text), std::vector<int>{1});
}

TEST(Waits, AbortEndsAConnectionThatIsBeingMade) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto group = new_group({0, 1});
    if (world.rank() == 1) {
      world.store()->wait({"seen"}); // never comes to the group
      return;
    }
    const auto began = Clock::now();
    const auto work = all_reduce(torch::ones({1}), ReduceOp::SUM, group, false);
    const auto other = isend(torch::ones({1}), 1, group);
    std::this_thread::sleep_for(100ms); // they connect
    group->abort("disk full");
    EXPECT_THAT(
        thrown_by<PeerLost>([&] { work->wait(); }), HasSubstr("disk full"));
    EXPECT_THAT(
        thrown_by<PeerLost>([&] { other->wait(); }), HasSubstr("disk full"));
    EXPECT_LT(Clock::now() - began, 10s);
    world.store()->set("seen", {1});
  });
}

class Ending : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Waits,
    Ending,
    ::testing::Values("auto", "gloo", "c10d"),
    [](const auto& test) { return test.param; });

// The other rank never comes to the operation; the limit is half a minute.
TEST_P(Ending, TheEndOfAGroupEndsItsOperation) {
  argosy::testing::run_ranks(2, [](World& world) {
    auto group = new_group({0, 1}, GetParam());
    barrier(group);
    if (world.rank() == 0) {
      const auto began = Clock::now();
      const auto work =
          all_reduce(torch::ones({3}), ReduceOp::SUM, group, false);
      std::this_thread::sleep_for(100ms); // it begins
      destroy_process_group(group);
      group.reset();
      EXPECT_TRUE(work->is_completed());
      EXPECT_THROW(work->wait(), PeerLost);
      EXPECT_LT(Clock::now() - began, 12s);
      world.store()->set("ended", {1});
    } else {
      world.store()->wait({"ended"});
    }
  });
}

// What is about to end may end.
TEST(Waits, TheEndOfAGroupLetsAnOperationEndThatCan) {
  argosy::testing::run_ranks(2, [](World& world) {
    auto group = new_group({0, 1});
    barrier(group);
    if (world.rank() == 1) {
      std::this_thread::sleep_for(300ms);
    }
    const at::Tensor data = torch::ones({3});
    const auto work = all_reduce(data, ReduceOp::SUM, group, false);
    std::this_thread::sleep_for(100ms); // it begins
    destroy_process_group(group);
    group.reset();
    EXPECT_NO_THROW(work->wait());
    EXPECT_EQ(data[0].item<float>(), 2);
  });
}

} // namespace
} // namespace argosy
