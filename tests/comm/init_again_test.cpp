// Worlds that follow each other in one job: the store may be the same, and
// nothing of an earlier world may reach a later one.

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <chrono>
#include <thread>

#include "argosy/comm/group.h"
#include "argosy/comm/objects.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/init.h"
#include "argosy/world/world.h"
#include "tests/support/free_port.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 4;

// Groups of all ranks and of some, with values that tell the round.
void use_world(int round) {
  const int size = get_world_size();
  const at::Tensor sum = at::full({3}, round * 100 + get_rank(), at::kLong);
  all_reduce(sum);
  EXPECT_EQ(sum[0].item<long>(), size * round * 100 + size * (size - 1) / 2);
  const auto pair = new_group({0, 1});
  if (get_rank() < 2) {
    const at::Tensor from = at::full({1}, round * 10 + get_rank(), at::kLong);
    broadcast(from, 1, pair);
    EXPECT_EQ(from.item<long>(), round * 10 + 1);
  }
}

// Ranks come at different times: a fast one must not meet an old world.
void straggle(int round) {
  if (get_rank() == round % get_world_size()) {
    std::this_thread::sleep_for(20ms);
  }
}

void use_worlds() {
  for (int round = 0; round < kRounds; ++round) {
    init_parallel_env({.timeout = 20s});
    use_world(round);
    straggle(round);
    destroy_process_group();
    EXPECT_FALSE(is_initialized());
  }
  init_parallel_env({.timeout = 20s});
}

TEST(InitAgain, ThreadRanks) {
  testing::run_ranks(3, [](World&) {
    destroy_process_group();
    use_worlds();
  });
}

TEST(InitAgain, ProcessRanks) {
  testing::run_process_ranks(3, [](World&) {
    destroy_process_group();
    use_worlds();
  });
}

TEST(InitAgain, OnTheStoreThatTheCallerGives) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int round = 0; round < kRounds; ++round) {
        init(store, rank, 3, {.timeout = 20s});
        use_world(round);
        straggle(round);
        destroy_process_group();
      }
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
}

// Rank 0 serves the store, as under `argosy run`; who keeps a world that has
// ended keeps its server.
TEST(InitAgain, WhereRankZeroServesTheStore) {
  for (const bool keeps : {false, true}) {
    const std::string url =
        "tcp://127.0.0.1:" + std::to_string(testing::free_port());
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        LaunchInfo info;
        info.rank = info.local_rank = rank;
        info.size = info.local_size = 3;
        info.store_url = url;
        info.serves_store = rank == 0;
        std::vector<std::shared_ptr<World>> kept;
        for (int round = 0; round < kRounds; ++round) {
          auto world = init(info, {.timeout = 20s});
          use_world(round);
          straggle(round);
          if (keeps && round == 1) {
            kept.push_back(world);
          }
          world.reset();
          destroy_process_group();
        }
      });
    }
    for (std::thread& rank : ranks) {
      rank.join();
    }
  }
}

// A rank that gave up and comes again counts once.
TEST(InitAgain, AfterARankGaveUp) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_THROW(init(store, 0, 3, {.timeout = 50ms}), TimeoutError);
  EXPECT_THROW(init(store, 0, 3, {.timeout = 50ms}), TimeoutError);
  EXPECT_THROW(init(store, 0, 3, {.timeout = 50ms}), TimeoutError);
}

} // namespace
} // namespace argosy
