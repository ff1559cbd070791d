#include "argosy/rpc/rpc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>
#include <unistd.h>

#include <atomic>

#include "argosy/common/error.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy::rpc {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

std::string name_of(int rank) {
  return "trainer" + std::to_string(rank);
}

at::Tensor scaled(const at::Tensor& values, double factor) {
  return values * factor;
}

std::vector<at::Tensor> reversed(std::vector<at::Tensor> tensors) {
  std::reverse(tensors.begin(), tensors.end());
  return tensors;
}

// Each rank calls the next one, which has state of its own.
void call_around(World& world, const RpcOptions& options) {
  auto total = std::make_shared<std::atomic<int>>(0);
  register_function("add", [total, &world](int amount) {
    EXPECT_EQ(current_world().get(), &world); // runs as the callee
    return *total += amount;
  });
  register_function("scaled", scaled);
  init_rpc(name_of(world.rank()), options);
  register_function("scaled at once", scaled, {.inline_ = true});
  EXPECT_EQ(
      get_current_worker_info().port > 0, options.transport == Transport::Tcp);
  const int next = (world.rank() + 1) % world.size();
  const std::string to = name_of(next);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(rpc_sync<int>(to, "add", i), i * (i + 1) / 2);
  }
  const at::Tensor values = torch::arange(12).view({3, 4}).to(torch::kFloat);
  const at::Tensor twice = rpc_sync<at::Tensor>(to, "scaled", values, 2.0);
  EXPECT_TRUE(torch::equal(twice, values * 2));
  EXPECT_TRUE(torch::equal(
      rpc_async<at::Tensor>(to, "scaled", values.t(), 0.5).wait(),
      values.t() * 0.5));
  shutdown(seconds(20));
}

TEST(Rpc, ThreadRanksCallEachOther) {
  for (const Transport transport :
       {Transport::SharedMemory, Transport::Unix, Transport::Tcp}) {
    argosy::testing::run_ranks(
        8, [&](World& world) { call_around(world, {.transport = transport}); });
  }
}

TEST(RpcProcesses, ProcessRanksCallEachOther) {
  argosy::testing::run_process_ranks(
      3, [](World& world) { call_around(world, {}); });
}

TEST(Rpc, TensorsOfAllKindsTravel) {
  argosy::testing::run_ranks(2, [](World& world) {
    register_function(
        "identity", [](const at::Tensor& tensor) { return tensor; });
    register_function("reversed", reversed);
    register_function("where", [](const at::Tensor& tensor) {
      return reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64;
    });
    init_rpc(name_of(world.rank()));
    const std::string to = name_of(1 - world.rank());
    for (const at::Tensor& tensor :
         {torch::empty({0, 3}),
          torch::tensor(3.5),
          torch::arange(7, torch::kInt16),
          torch::randn({3, 4}).to(torch::kBFloat16),
          torch::randn({4, 6}).slice(1, 1, 5, 2),
          torch::randn({200, 300}).t(),
          torch::tensor({true, false})}) {
      const auto back = rpc_sync<at::Tensor>(to, "identity", tensor);
      EXPECT_TRUE(torch::equal(back, tensor));
      EXPECT_EQ(back.scalar_type(), tensor.scalar_type());
    }
    EXPECT_FALSE(rpc_sync<at::Tensor>(to, "identity", at::Tensor()).defined());
    EXPECT_EQ(rpc_sync<std::uintptr_t>(to, "where", torch::ones(100000)), 0);
    const auto list = rpc_sync<std::vector<at::Tensor>>(
        to,
        "reversed",
        std::vector<at::Tensor>{torch::ones(2), torch::zeros(3)});
    ASSERT_EQ(list.size(), 2);
    EXPECT_TRUE(torch::equal(list[0], torch::zeros(3)));
    shutdown(seconds(20));
  });
}

TEST(Rpc, KnowsTheWorkers) {
  argosy::testing::run_ranks(3, [](World& world) {
    EXPECT_THROW(get_all_worker_infos(), InvalidArgument);
    init_rpc(name_of(world.rank()));
    EXPECT_THROW(init_rpc("again"), InvalidArgument);
    const auto infos = get_all_worker_infos();
    ASSERT_EQ(infos.size(), 3);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(infos[rank].rank, rank);
      EXPECT_EQ(infos[rank].name, name_of(rank));
      EXPECT_EQ(get_worker_info(name_of(rank)), infos[rank]);
    }
    EXPECT_EQ(get_current_worker_info(), infos[world.rank()]);
    try {
      get_worker_info("nobody");
      ADD_FAILURE();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("trainer0, trainer1, trainer2"));
    }
    EXPECT_THROW(rpc_sync<int>("nobody", "f"), InvalidArgument);
    shutdown(seconds(20));
    // And once more.
    init_rpc("second" + std::to_string(world.rank()));
    EXPECT_EQ(get_worker_info("second2").rank, 2);
    shutdown(seconds(20));
  });
}

TEST(Rpc, NamesMustDiffer) {
  argosy::testing::run_ranks(3, [](World& world) {
    try {
      init_rpc(world.rank() == 0 ? "a" : "b");
      ADD_FAILURE();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("ranks 1 and 2 have the name b"));
    }
  });
}

TEST(Rpc, TypesAreChecked) {
  argosy::testing::run_ranks(2, [](World& world) {
    register_function("half", [](double value) { return value / 2; });
    register_function(
        "throws", [](int) -> int { throw InvalidArgument("[here.op] no"); });
    register_function("nothing", [] {});
    register_function("text", [](const std::string& text) { return text; });
    EXPECT_THROW(register_function("half", [] {}), InvalidArgument);
    init_rpc(name_of(world.rank()));
    const std::string to = name_of(1 - world.rank());
    EXPECT_EQ(rpc_sync<double>(to, "half", 3.0), 1.5);
    EXPECT_EQ(rpc_sync<std::string>(to, "text", "plain"), "plain");
    rpc_sync<void>(to, "nothing");
    rpc_async<void>(to, "nothing").wait();
    for (const auto& wrong : std::vector<std::function<void()>>{
             [&] { rpc_sync<double>(to, "half", 3); },
             [&] { rpc_sync<int>(to, "half", 3.0); },
             [&] { rpc_sync<double>(to, "half"); },
             [&] { rpc_sync<double>(to, "half", 3.0, 4.0); }}) {
      try {
        wrong();
        ADD_FAILURE();
      } catch (const RemoteError& error) {
        EXPECT_THAT(error.what(), HasSubstr("expected double(double)"));
      }
    }
    try {
      rpc_sync<int>(to, "throws", 1);
      ADD_FAILURE();
    } catch (const RemoteError& error) {
      EXPECT_EQ(error.type(), "argosy::InvalidArgument");
      EXPECT_THAT(error.text(), HasSubstr("[here.op] no; rank ")); // callee's
      EXPECT_EQ(error.peer(), to);
    }
    shutdown(seconds(20));
  });
}

TEST(Rpc, ManyAtOnceAndNested) {
  argosy::testing::run_ranks(4, [](World& world) {
    register_function("depth", [](int rank, int size, int depth) -> int {
      return depth == 0 ? 0
                        : 1 +
              rpc_sync<int>(name_of((rank + 1) % size),
                            "depth",
                            (rank + 1) % size,
                            size,
                            depth - 1);
    });
    register_function("self", [](int value) { return -value; });
    init_rpc(name_of(world.rank()));
    EXPECT_EQ(
        rpc_sync<int>(
            name_of(world.rank()), "depth", world.rank(), world.size(), 9),
        9);
    std::vector<Future<int>> futures;
    for (int i = 0; i < 500; ++i) {
      futures.push_back(rpc_async<int>(name_of(i % 4), "self", i));
    }
    for (int i = 0; i < 500; ++i) {
      EXPECT_EQ(futures[i].wait(), -i);
    }
    const auto all = rpc_all<int>(
                         {name_of(0), name_of(1), name_of(2), name_of(3)},
                         {.timeout = seconds(20), .exactly_once = true},
                         "self",
                         5)
                         .wait();
    ASSERT_EQ(all.size(), 4);
    for (const auto& result : all) {
      EXPECT_EQ(result.value(), -5);
    }
    shutdown(seconds(20));
  });
}

TEST(Rpc, ShutdownWaitsForTheOthersAndNamesThoseWhoStayAway) {
  argosy::testing::run_ranks(3, [](World& world) {
    register_function("one", [] { return 1; });
    init_rpc(name_of(world.rank()));
    if (world.rank() == 2) {
      // Late, and needs the others until then.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(rpc_sync<int>(name_of(0), "one"), 1);
      EXPECT_EQ(rpc_sync<int>(name_of(1), "one"), 1);
    }
    shutdown(seconds(20));
    init_rpc(name_of(world.rank()));
    if (world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
    }
    try {
      shutdown(std::chrono::milliseconds(world.rank() == 1 ? 20000 : 100));
      EXPECT_EQ(world.rank(), 1);
    } catch (const TimeoutError& error) {
      EXPECT_NE(world.rank(), 1);
      EXPECT_THAT(error.what(), HasSubstr("ranks 1 did not call"));
    }
  });
}

TEST(RpcProcesses, AKilledRankIsNamedAndNotWaitedFor) {
  try {
    argosy::testing::run_process_ranks(3, [](World& world) {
      register_function("die", []() -> int {
        ::kill(::getpid(), SIGKILL);
        return 0;
      });
      init_rpc(name_of(world.rank()));
      if (world.rank() == 2) {
        std::this_thread::sleep_for(seconds(30));
      }
      const auto begin = Deadline::Clock::now();
      if (world.rank() == 0) {
        try {
          rpc_sync<int>(name_of(2), "die");
          ADD_FAILURE() << "it answered";
        } catch (const RpcError& error) {
          EXPECT_EQ(error.failure(), Failure::PeerLost);
          EXPECT_EQ(error.peer(), "trainer2");
        }
        EXPECT_LT(Deadline::Clock::now() - begin, seconds(1));
      }
      shutdown(seconds(30));
      EXPECT_LT(Deadline::Clock::now() - begin, seconds(15));
    });
    FAIL() << "rank 2 was killed";
  } catch (const RankFailed& error) {
    EXPECT_EQ(error.rank(), 2);
  }
}

} // namespace
} // namespace argosy::rpc
