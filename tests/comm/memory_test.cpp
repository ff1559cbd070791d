// Collectives among ranks that share memory, as threads and as processes,
// against sums that are exact.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "argosy/comm/memory/collectives.h"
#include "argosy/comm/memory/shared_team.h"
#include "argosy/comm/memory/team.h"
#include "argosy/comm/store_texts.h"
#include "argosy/common/error.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"

namespace argosy::comm::memory {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline soon() {
  return Deadline::after(30s);
}

// A team of the ranks of a world, set up through its store.
SharedTeam make_team(World& world, const std::string& name = "test") {
  return SharedTeam(
      name,
      world.rank(),
      world.size(),
      gather_through(world.store(), name, world.rank(), world.size()));
}

// Small integers that differ by rank and place: their sums are exact in all
// types, and a value from the wrong place or rank shows.
float value_at(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 31);
}

std::vector<float> values_of(
    int rank, std::size_t count, std::size_t from = 0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = value_at(rank, from + i);
  }
  return values;
}

std::vector<float> sum_of_all(
    int size, std::size_t count, std::size_t from = 0) {
  std::vector<float> sum(count, 0);
  for (int rank = 0; rank < size; ++rank) {
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] += value_at(rank, from + i);
    }
  }
  return sum;
}

constexpr Reduction kSum{DType::Float32, ReduceOp::SUM};

// All collectives at one size, each rank checking its own result.
void check_all(Team& team, std::size_t count) {
  const int size = team.size();
  const int rank = team.rank();
  const auto n = static_cast<std::size_t>(size);
  const int root = size / 2;

  barrier(team, soon());

  std::vector<float> data = values_of(rank, count);
  all_reduce(team, data.data(), data.data(), count, kSum, soon());
  EXPECT_EQ(data, sum_of_all(size, count)) << "all_reduce in place " << count;

  const std::vector<float> mine = values_of(rank, count);
  std::vector<float> out(count, -1);
  all_reduce(team, mine.data(), out.data(), count, kSum, soon());
  EXPECT_EQ(out, sum_of_all(size, count)) << "all_reduce " << count;
  EXPECT_EQ(mine, values_of(rank, count)) << "the input stays";

  out.assign(count, -1);
  reduce(team, mine.data(), out.data(), count, kSum, root, soon());
  if (rank == root) {
    EXPECT_EQ(out, sum_of_all(size, count)) << "reduce " << count;
  }

  data = values_of(rank, count);
  broadcast(team, data.data(), count, DType::Float32, root, soon());
  EXPECT_EQ(data, values_of(root, count)) << "broadcast " << count;

  std::vector<float> gathered(count * n, -1);
  std::vector<float> expected;
  for (int peer = 0; peer < size; ++peer) {
    const auto theirs = values_of(peer, count);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  all_gather(team, mine.data(), gathered.data(), count, DType::Float32, soon());
  EXPECT_EQ(gathered, expected) << "all_gather " << count;

  gathered.assign(count * n, -1);
  gather(
      team, mine.data(), gathered.data(), count, DType::Float32, root, soon());
  if (rank == root) {
    EXPECT_EQ(gathered, expected) << "gather " << count;
  }

  out.assign(count, -1);
  scatter(
      team, expected.data(), out.data(), count, DType::Float32, root, soon());
  EXPECT_EQ(out, mine) << "scatter " << count;

  const std::vector<float> wide = values_of(rank, count * n);
  out.assign(count, -1);
  reduce_scatter(team, wide.data(), out.data(), count, kSum, soon());
  EXPECT_EQ(
      out, sum_of_all(size, count, count * static_cast<std::size_t>(rank)))
      << "reduce_scatter " << count;

  // Rank r sends r + p + count elements to rank p.
  std::vector<std::size_t> send(n);
  std::vector<std::size_t> receive(n);
  std::vector<float> packed;
  std::vector<float> unpacked;
  for (int peer = 0; peer < size; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    send[p] = receive[p] = static_cast<std::size_t>(rank) + p + count;
    const auto to = values_of(rank, send[p], 100 * p);
    packed.insert(packed.end(), to.begin(), to.end());
    const auto from =
        values_of(peer, receive[p], 100 * static_cast<std::size_t>(rank));
    unpacked.insert(unpacked.end(), from.begin(), from.end());
  }
  std::vector<float> received(unpacked.size(), -1);
  all_to_all(
      team,
      packed.data(),
      send,
      received.data(),
      receive,
      DType::Float32,
      soon());
  EXPECT_EQ(received, unpacked) << "all_to_all " << count;
}

const std::vector<std::size_t> kCounts = {
    0,
    1,
    7,
    1024,
    8192,
    8193,
    100003,
    std::size_t{1} << 20,
    (std::size_t{5} << 20) / 4 + 3};

class MemoryThreads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(
    Sizes, MemoryThreads, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(MemoryThreads, AllCollectives) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    SharedTeam shared = make_team(world);
    for (const std::size_t count : kCounts) {
      check_all(shared.team(), count);
    }
  });
}

TEST(MemoryProcesses, AllCollectives) {
  argosy::testing::run_process_ranks(3, [](World& world) {
    SharedTeam shared = make_team(world);
    EXPECT_FALSE(shared.team().one_address_space());
    for (const std::size_t count : kCounts) {
      check_all(shared.team(), count);
    }
  });
}

TEST(MemoryThreads, SameBitsInRankOrderWhateverTheSizeOrWay) {
  // Values whose sum depends on the order; compared with a serial loop.
  for (const std::size_t count : {1000, 300000}) {
    argosy::testing::run_ranks(3, [&](World& world) {
      SharedTeam shared = make_team(world);
      const auto at = [](int rank, std::size_t i) {
        return 1.0f / static_cast<float>(1 + i % 97 + 1000 * rank * rank);
      };
      std::vector<float> data(count);
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        data[i] = at(world.rank(), i);
        expected[i] = (at(0, i) + at(1, i)) + at(2, i);
      }
      all_reduce(shared.team(), data.data(), data.data(), count, kSum, soon());
      EXPECT_EQ(
          std::memcmp(data.data(), expected.data(), count * sizeof(float)), 0);
    });
  }
}

// ---- never hangs, and says why ---------------------------------------------

template <typename E>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing, or something else, was thrown";
  return "";
}

TEST(MemoryContract, DisagreementIsNamedOnEveryRankAtOnce) {
  const auto began = std::chrono::steady_clock::now();
  argosy::testing::run_ranks(3, [](World& world) {
    SharedTeam shared = make_team(world, "g7");
    std::vector<float> data(8);
    const std::string text = message_of<InvalidArgument>([&] {
      const std::size_t count = world.rank() == 2 ? 4 : 8;
      all_reduce(shared.team(), data.data(), data.data(), count, kSum, soon());
    });
    EXPECT_THAT(
        text,
        AllOf(
            HasSubstr("group g7"),
            HasSubstr("all_reduce of 8 float32, sum"),
            HasSubstr("rank 2 calls all_reduce of 4 float32, sum")));
    EXPECT_THROW(barrier(shared.team(), soon()), PeerLost)
        << "the group is of no more use";
  });
  EXPECT_LT(std::chrono::steady_clock::now() - began, 1s);
}

TEST(MemoryContract, OtherOpsRootsAndTypesAreTold) {
  argosy::testing::run_ranks(2, [](World& world) {
    std::vector<float> data(8);
    const bool first = world.rank() == 0;
    SharedTeam ops = make_team(world, "ops");
    EXPECT_THAT(
        message_of<InvalidArgument>([&] {
          if (first) {
            barrier(ops.team(), soon());
          } else {
            broadcast(ops.team(), data.data(), 8, DType::Float32, 0, soon());
          }
        }),
        AllOf(HasSubstr("calls barrier"), HasSubstr("calls broadcast of 8")));
    SharedTeam roots = make_team(world, "roots");
    EXPECT_THAT(
        message_of<InvalidArgument>([&] {
          broadcast(
              roots.team(),
              data.data(),
              8,
              DType::Float32,
              first ? 0 : 1,
              soon());
        }),
        AllOf(HasSubstr("root 0"), HasSubstr("root 1")));
    SharedTeam types = make_team(world, "types");
    EXPECT_THAT(
        message_of<InvalidArgument>([&] {
          broadcast(
              types.team(),
              data.data(),
              8,
              first ? DType::Float32 : DType::Int32,
              0,
              soon());
        }),
        AllOf(HasSubstr("float32"), HasSubstr("int32")));
  });
}

TEST(MemoryContract, AllToAllCountsThatDoNotMatch) {
  argosy::testing::run_ranks(3, [](World& world) {
    SharedTeam shared = make_team(world);
    std::vector<float> data(64);
    std::vector<std::size_t> counts(3, 4);
    std::vector<std::size_t> expected(3, 4);
    if (world.rank() == 1) {
      expected[2] = 5;
    }
    EXPECT_THAT(
        message_of<InvalidArgument>([&] {
          all_to_all(
              shared.team(),
              data.data(),
              counts,
              data.data(),
              expected,
              DType::Float32,
              soon());
        }),
        HasSubstr("rank 2 sends 4 elements to rank 1, which expects 5"));
  });
}

TEST(MemoryFailure, ARankThatDoesNotComeIsNamed) {
  argosy::testing::run_ranks(2, [](World& world) {
    SharedTeam shared = make_team(world);
    if (world.rank() == 0) {
      EXPECT_THAT(
          message_of<TimeoutError>(
              [&] { barrier(shared.team(), Deadline::after(100ms)); }),
          AllOf(
              HasSubstr("rank 1"), HasSubstr("barrier"), HasSubstr("100 ms")));
    }
  });
}

TEST(MemoryFailure, AbortEndsTheWaitsOfAll) {
  argosy::testing::run_ranks(3, [](World& world) {
    SharedTeam shared = make_team(world);
    if (world.rank() == 1) {
      shared.team().abort("disk full");
    }
    const auto began = std::chrono::steady_clock::now();
    if (world.rank() != 1) {
      EXPECT_THAT(
          message_of<PeerLost>([&] { barrier(shared.team(), soon()); }),
          AllOf(HasSubstr("rank 1"), HasSubstr("disk full")));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - began, 1s);
  });
}

// The ranks that survive report how long they took to notice through files.
TEST(MemoryFailure, AKilledRankIsNoticedWithin200Milliseconds) {
  const auto run = [] {
    argosy::testing::run_process_ranks(3, [](World& world) {
      SharedTeam shared = make_team(world);
      std::vector<float> data(1 << 20, 1.0f);
      std::chrono::steady_clock::time_point last;
      const std::string text = message_of<PeerLost>([&] {
        for (int i = 0;; ++i) {
          if (world.rank() == 1 && i == 5) {
            ::kill(::getpid(), SIGKILL);
          }
          last = std::chrono::steady_clock::now();
          all_reduce(
              shared.team(),
              data.data(),
              data.data(),
              data.size(),
              kSum,
              soon());
        }
      });
      EXPECT_THAT(text, AllOf(HasSubstr("rank 1"), HasSubstr("died")));
      EXPECT_LT(std::chrono::steady_clock::now() - last, 200ms);
      if (::testing::Test::HasFailure()) {
        throw Error("survivor failed");
      }
    });
  };
  try {
    run();
    FAIL() << "rank 1 was killed";
  } catch (const RankFailed& failure) {
    EXPECT_EQ(failure.rank(), 1) << failure.what();
  }
}

TEST(MemoryFailure, NothingStaysInSharedMemory) {
  const auto entries = [] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      count += entry.path().filename().string().find("argosy") == 0 ? 1 : 0;
    }
    return count;
  };
  argosy::testing::run_ranks(2, [&](World& world) {
    SharedTeam shared = make_team(world);
    barrier(shared.team(), soon());
    EXPECT_EQ(entries(), 0);
  });
}

} // namespace
} // namespace argosy::comm::memory
