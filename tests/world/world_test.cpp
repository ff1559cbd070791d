#include "argosy/world/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <set>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"
#include "argosy/compat/parallel_env.h"
#include "argosy/store/open.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/init.h"
#include "argosy/world/rendezvous.h"
#include "argosy/world/scheduler.h"
#include "argosy/world/spawn.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

template <typename E>
auto throws(const std::string& text) {
  return Throws<E>(Property(&E::what, HasSubstr(text)));
}

std::vector<std::uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

TEST(World, AProgramThatNobodyLaunchedIsAWorldOfOne) {
  EXPECT_FALSE(is_initialized());
  EXPECT_TRUE(is_available());
  EXPECT_EQ(get_rank(), 0);
  EXPECT_EQ(get_world_size(), 1);
  const auto world = init_parallel_env();
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->store()->add("x", 2), 2);
  EXPECT_EQ(init_parallel_env(), world) << "a second call is the first's world";
  destroy_process_group();
  EXPECT_FALSE(is_initialized());
  destroy_process_group();
}

TEST(World, IsBoundToItsThread) {
  const auto world = init_parallel_env();
  std::thread([] {
    EXPECT_FALSE(is_initialized());
    EXPECT_THAT(
        [] { require_world("test.op"); }, throws<InvalidArgument>("[test.op]"));
  }).join();
  destroy_process_group();
}

TEST(World, AThreadJoinsTheWorldOfItsRank) {
  testing::run_ranks(3, [](World& world) {
    const auto shared = current_world();
    std::thread([&] {
      const WorldScope scope(shared);
      EXPECT_EQ(get_rank(), world.rank());
      EXPECT_EQ(current_world().get(), &world);
    }).join();
    EXPECT_EQ(current_world().get(), &world);
  });
}

class WorldSizes : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, WorldSizes, ::testing::Values(1, 2, 3, 4, 7, 64));

TEST_P(WorldSizes, EveryRankIsThereOnce) {
  const int size = GetParam();
  std::atomic<int> sum{0};
  testing::run_ranks(size, [&](World& world) {
    EXPECT_EQ(world.size(), size);
    EXPECT_EQ(world.local_rank(), world.rank());
    EXPECT_EQ(world.local_size(), size);
    sum += world.rank();
    world.store()->set("from/" + std::to_string(world.rank()), bytes("x"));
    for (int other = 0; other < size; ++other) {
      EXPECT_EQ(
          world.store()->get("from/" + std::to_string(other)), bytes("x"));
    }
  });
  EXPECT_EQ(sum, size * (size - 1) / 2);
}

TEST(World, ManyWorldsLiveInOneProcess) {
  testing::run_ranks(2, [](World& outer) {
    const int outer_rank = outer.rank();
    testing::run_ranks(3, [&](World& inner) {
      EXPECT_EQ(inner.size(), 3);
      EXPECT_EQ(inner.store()->add("count", 0), 0) << "stores are separate";
    });
    EXPECT_EQ(get_rank(), outer_rank);
  });
}

TEST(World, LabelsErrorsWithTheRank) {
  testing::run_ranks(2, [](World& world) {
    const std::string label = std::to_string(world.rank()) + "/2";
    EXPECT_EQ(rank_label(), label);
    EXPECT_THAT(Error("x").what(), HasSubstr("rank " + label));
  });
  EXPECT_EQ(rank_label(), "");
}

TEST(Init, FromAnExplicitStore) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto world = init(store, rank, 3, {.timeout = 10s});
      EXPECT_EQ(get_rank(), rank);
      EXPECT_EQ(world->local_rank(), rank) << "all on this host";
      EXPECT_EQ(world->local_size(), 3);
      EXPECT_EQ(world->info().num_nodes, 1);
      destroy_process_group();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST(Init, RefusesRanksThatCannotBe) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  const std::vector<std::pair<int, int>> impossible = {
      {-1, 2}, {2, 2}, {0, 0}, {0, -3}};
  for (const auto& pair : impossible) {
    const auto call = [&] { init(store, pair.first, pair.second); };
    EXPECT_THAT(call, throws<InvalidArgument>("expected 0 <= rank < size"));
  }
  const auto no_store = [] { init(c10::intrusive_ptr<c10d::Store>(), 0, 1); };
  EXPECT_THAT(no_store, throws<InvalidArgument>("null"));
  const auto no_time = [&] { init(store, 0, 1, {.timeout = 0ms}); };
  EXPECT_THAT(no_time, throws<InvalidArgument>("timeout"));
  EXPECT_FALSE(is_initialized());
}

TEST(Init, NamesTheRanksThatDoNotCome) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  const auto began = std::chrono::steady_clock::now();
  std::thread other([&] {
    EXPECT_THROW(init(store, 3, 5, {.timeout = 200ms}), TimeoutError);
  });
  const auto wait_in_vain = [&] { init(store, 0, 5, {.timeout = 200ms}); };
  EXPECT_THAT(
      wait_in_vain,
      throws<TimeoutError>("rank 1, 2, 4 of 5 did not come within 200 ms"));
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, 2s);
  EXPECT_FALSE(is_initialized());
}

TEST(Init, TwoProcessesThatClaimOneRankBothLearnOfIt) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      try {
        init(store, 1, 2, {.timeout = 10s});
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 1 is claimed twice"));
        ++refused;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(refused, 2);
}

TEST(Init, RanksThatWereToldDifferentSizesBothLearnOfIt) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      try {
        init(store, i, 2 + i, {.timeout = 10s});
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("2"), HasSubstr("3")));
        ++refused;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(refused, 2);
}

TEST(Init, ABroadcastOfTextIsEnough) {
  // The way of init_from_mpi(), with a broadcast among threads.
  c10d::HashStore channel;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      LaunchInfo info;
      info.rank = info.local_rank = rank;
      info.size = info.local_size = 3;
      const auto world = init(
          info,
          [&](const std::string& own) {
            if (rank == 0) {
              channel.set("address", bytes(own));
            }
            const auto value = channel.get("address");
            return std::string(value.begin(), value.end());
          },
          {.timeout = 20s});
      EXPECT_GE(world->store()->add("met", 1), 1);
      destroy_process_group();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST(Meet, HandsOutRanksByAddressThenId) {
  c10d::HashStore store;
  const std::vector<std::tuple<std::string, std::string, int>> arrivals = {
      {"10.0.0.10", "b", 3},
      {"10.0.0.9", "z", 1},
      {"10.0.0.10", "a", 2},
      {"9.255.0.1", "m", 0}};
  std::vector<std::thread> threads;
  for (const auto& [address, id, expected] : arrivals) {
    threads.emplace_back([&store, a = address, i = id, e = expected] {
      EXPECT_EQ(rank_by_arrival(store, 4, a, i, Deadline::after(10s)), e);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(
      [&] {
        rank_by_arrival(store, 4, "10.0.0.1", "late", Deadline::after(1s));
      },
      throws<InvalidArgument>("one process too many"));
}

TEST(Leave, WhoServesTheStoreStaysForTheOthers) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  LaunchInfo server{.rank = 0, .size = 2, .serves_store = true};
  World world(server, store, 1000ms);
  World other({.rank = 1, .size = 2}, store, 1000ms);
  std::atomic<bool> other_left{false};
  std::thread thread([&] {
    std::this_thread::sleep_for(50ms);
    other_left = true;
    other.leave(Deadline::after(1s));
  });
  world.leave(Deadline::after(10s));
  EXPECT_TRUE(other_left);
  thread.join();
}

TEST(ParallelEnvironment, ShowsWhoTheRankIs) {
  testing::run_ranks(2, [](World& world) {
    const ParallelEnv env;
    EXPECT_EQ(env.rank(), world.rank());
    EXPECT_EQ(env.local_rank(), world.rank());
    EXPECT_EQ(env.world_size(), 2);
    EXPECT_EQ(env.nranks(), 2);
    EXPECT_EQ(env.device_type(), "cpu");
    EXPECT_EQ(env.device_id(), 0);
    EXPECT_EQ(env.dev_id(), env.device_id());
    EXPECT_EQ(env.nrings(), 1);
    EXPECT_EQ(env.pg_timeout(), 30min);
    EXPECT_EQ(env.current_endpoint(), "");
    EXPECT_TRUE(env.trainer_endpoints().empty());
  });
}

// A store that answers nobody, as that of a scheduler that was stopped.
class SilentStore final : public c10d::HashStore {
 public:
  explicit SilentStore(std::shared_future<void> release)
      : release_(std::move(release)) {}

  std::int64_t add(const std::string& key, std::int64_t value) override {
    asked_.set_value();
    release_.wait();
    return c10d::HashStore::add(key, value);
  }

  std::future<void> asked() { return asked_.get_future(); }

 private:
  const std::shared_future<void> release_;
  std::promise<void> asked_;
};

TEST(Heartbeat, EndsInTimeWhenTheSchedulerHangs) {
  std::promise<void> release;
  const auto store =
      c10::make_intrusive<SilentStore>(release.get_future().share());
  auto asked = store->asked();
  auto heartbeat = std::make_unique<Heartbeat>(store, 0);
  ASSERT_EQ(asked.wait_for(20s), std::future_status::ready);
  auto ended = std::async(std::launch::async, [&] { heartbeat.reset(); });
  EXPECT_EQ(ended.wait_for(10s), std::future_status::ready);
  release.set_value(); // the beat ends, and with it the thread
  ended.get();
}

TEST(Scheduler, CountsAWorkerThatLeftBeforeItsFirstHeartbeat) {
  c10d::HashStore store;
  store.add("beat/0", 1);
  for (const int rank : {0, 1}) {
    store.set(departure_key(rank), bytes("done"));
  }
  EXPECT_NO_THROW(serve_as_scheduler(store, 2, Deadline::after(0s), 20s));
}

TEST(Scheduler, NamesAWorkerThatNeverCame) {
  c10d::HashStore store;
  store.add("beat/0", 1);
  EXPECT_THAT(
      [&] { serve_as_scheduler(store, 2, Deadline::after(0s), 20s); },
      throws<TimeoutError>("worker 1 of 2 did not come"));
}

} // namespace
} // namespace argosy
