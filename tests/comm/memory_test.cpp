// Collectives among ranks that share memory, as threads and as processes,
// against sums that are exact.

#include <cstdint>
#include <cstring>

#include "tests/comm/memory_ranks.h"

namespace argosy::comm::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Rank r sends r + p + count elements to rank p.
void check_all_to_all(Backend& backend, const World& world, std::size_t count) {
  const auto rank = static_cast<std::size_t>(world.rank());
  std::vector<std::vector<float>> to;
  std::vector<std::vector<float>> from;
  std::vector<std::vector<float>> expected;
  Blocks in;
  Blocks out;
  for (int peer = 0; peer < world.size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    const std::size_t now = rank + p + count;
    to.push_back(values_of(world.rank(), now, 100 * p));
    from.emplace_back(now, -1.0f);
    expected.push_back(values_of(peer, now, 100 * rank));
    in.push_back({to.back().data(), now});
    out.push_back({from.back().data(), now});
  }
  backend.all_to_all(in, out, DType::Float32, soon());
  EXPECT_EQ(from, expected) << "all_to_all " << count;

  // In place: the buffers are the same.
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<float> data = values_of(world.rank(), count * size);
  std::vector<float> swapped;
  for (int peer = 0; peer < world.size(); ++peer) {
    const auto theirs = values_of(peer, count, count * rank);
    swapped.insert(swapped.end(), theirs.begin(), theirs.end());
  }
  const Blocks both = packed(data, world.size());
  backend.all_to_all(both, both, DType::Float32, soon());
  EXPECT_EQ(data, swapped) << "all_to_all in place " << count;
}

// Blocks that lie apart and in another order than that of the ranks.
void check_scattered_blocks(
    Backend& backend, const World& world, std::size_t count) {
  const int size = world.size();
  const auto rank = static_cast<std::size_t>(world.rank());
  std::vector<float> apart(static_cast<std::size_t>(size) * (count + 5), -1);
  const auto backwards = [&](const std::vector<float>& data) {
    Blocks blocks;
    for (int peer = 0; peer < size; ++peer) {
      const auto place = static_cast<std::size_t>(size - 1 - peer);
      blocks.push_back(
          {const_cast<float*>(data.data()) + place * (count + 5), count});
    }
    return blocks;
  };
  const std::vector<float> mine = values_of(world.rank(), count);
  backend.all_gather(
      mine.data(), backwards(apart), count, DType::Float32, soon());
  for (int peer = 0; peer < size; ++peer) {
    const auto* block = static_cast<const float*>(backwards(apart)[peer].data);
    EXPECT_EQ(std::vector(block, block + count), values_of(peer, count))
        << "all_gather into blocks " << count;
  }
  const std::vector<float> wide =
      values_of(world.rank(), static_cast<std::size_t>(size) * (count + 5));
  const std::size_t place =
      (static_cast<std::size_t>(size) - 1 - rank) * (count + 5);
  std::vector<float> out(count, -1);
  backend.reduce_scatter(backwards(wide), out.data(), count, kSum, soon());
  EXPECT_EQ(out, sum_of_all(size, count, place))
      << "reduce_scatter of blocks " << count;
}

// All collectives at one size, each rank checking its own result.
void check_all(Backend& backend, const World& world, std::size_t count) {
  const int size = world.size();
  const int rank = world.rank();
  const auto n = static_cast<std::size_t>(size);
  const int root = size / 2;

  backend.barrier(soon());

  std::vector<float> data = values_of(rank, count);
  backend.all_reduce(data.data(), data.data(), count, kSum, soon());
  EXPECT_EQ(data, sum_of_all(size, count)) << "all_reduce in place " << count;

  const std::vector<float> mine = values_of(rank, count);
  std::vector<float> out(count, -1);
  backend.all_reduce(mine.data(), out.data(), count, kSum, soon());
  EXPECT_EQ(out, sum_of_all(size, count)) << "all_reduce " << count;
  EXPECT_EQ(mine, values_of(rank, count)) << "the input stays";

  out.assign(count, -1);
  backend.reduce(mine.data(), out.data(), count, kSum, root, soon());
  if (rank == root) {
    EXPECT_EQ(out, sum_of_all(size, count)) << "reduce " << count;
  }

  data = values_of(rank, count);
  backend.broadcast(data.data(), count, DType::Float32, root, soon());
  EXPECT_EQ(data, values_of(root, count)) << "broadcast " << count;

  std::vector<float> gathered(count * n, -1);
  std::vector<float> expected;
  for (int peer = 0; peer < size; ++peer) {
    const auto theirs = values_of(peer, count);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  backend.all_gather(
      mine.data(), packed(gathered, size), count, DType::Float32, soon());
  EXPECT_EQ(gathered, expected) << "all_gather " << count;

  gathered.assign(count * n, -1);
  backend.gather(
      mine.data(), packed(gathered, size), count, DType::Float32, root, soon());
  if (rank == root) {
    EXPECT_EQ(gathered, expected) << "gather " << count;
  }

  out.assign(count, -1);
  backend.scatter(
      packed(expected, size), out.data(), count, DType::Float32, root, soon());
  EXPECT_EQ(out, mine) << "scatter " << count;

  const std::vector<float> wide = values_of(rank, count * n);
  out.assign(count, -1);
  backend.reduce_scatter(packed(wide, size), out.data(), count, kSum, soon());
  EXPECT_EQ(
      out, sum_of_all(size, count, count * static_cast<std::size_t>(rank)))
      << "reduce_scatter " << count;

  check_all_to_all(backend, world, count);
  check_scattered_blocks(backend, world, count);
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
    const auto backend = make_backend(world);
    for (const std::size_t count : kCounts) {
      check_all(*backend, world, count);
    }
  });
}

class MemoryProcesses : public ::testing::TestWithParam<Fetching> {};
INSTANTIATE_TEST_SUITE_P(
    Ways,
    MemoryProcesses,
    ::testing::Values(Fetching::Always, Fetching::IfFaster, Fetching::Never),
    [](const auto& test) {
      switch (test.param) {
        case Fetching::Always:
          return "Fetched";
        case Fetching::IfFaster:
          return "WhateverIsFaster";
        case Fetching::Never:
          break;
      }
      return "Windows";
    });

TEST_P(MemoryProcesses, AllCollectives) {
  argosy::testing::run_process_ranks(3, [](World& world) {
    const auto backend = make_backend(world, "test", GetParam());
    EXPECT_EQ(backend->name(), "shm");
    for (const std::size_t count : kCounts) {
      check_all(*backend, world, count);
    }
  });
}

// Some ranks have buffers that all see, the others memory of their own.
TEST_P(MemoryProcesses, BuffersOfSeveralKinds) {
  argosy::testing::run_process_ranks(3, [](World& world) {
    const auto backend = make_backend(world, "test", GetParam());
    const std::size_t count = 300'000;
    const std::size_t bytes = count * sizeof(float);
    const auto seen_in = backend->symmetric_memory(bytes, soon());
    const auto seen_out = backend->symmetric_memory(3 * bytes, soon());
    for (int own = 0; own < world.size(); ++own) { // whose buffers are its own
      const bool is_own = world.rank() == own;
      std::vector<float> in = values_of(world.rank(), count);
      std::vector<float> out(3 * count, -1);
      std::memcpy(seen_in.get(), in.data(), bytes);
      auto* from = is_own ? in.data() : reinterpret_cast<float*>(seen_in.get());
      auto* to = is_own ? out.data() : reinterpret_cast<float*>(seen_out.get());
      backend->all_gather(
          from,
          packed_blocks(to, 3, count, sizeof(float)),
          count,
          DType::Float32,
          soon());
      for (int peer = 0; peer < 3; ++peer) {
        const float* block = to + static_cast<std::size_t>(peer) * count;
        EXPECT_EQ(std::vector(block, block + count), values_of(peer, count));
      }
      backend->all_reduce(from, from, count, kSum, soon());
      EXPECT_EQ(std::vector(from, from + count), sum_of_all(3, count));
    }
  });
}

TEST(MemoryThreads, SameBitsInRankOrderWhateverTheSizeOrWay) {
  // Values whose sum depends on the order; compared with a serial loop.
  for (const std::size_t count : {1000, 300000}) {
    argosy::testing::run_ranks(3, [&](World& world) {
      const auto backend = make_backend(world);
      const auto at = [](int rank, std::size_t i) {
        return 1.0f / static_cast<float>(1 + i % 97 + 1000 * rank * rank);
      };
      std::vector<float> data(count);
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        data[i] = at(world.rank(), i);
        expected[i] = (at(0, i) + at(1, i)) + at(2, i);
      }
      backend->all_reduce(data.data(), data.data(), count, kSum, soon());
      EXPECT_EQ(
          std::memcmp(data.data(), expected.data(), count * sizeof(float)), 0);
    });
  }
}

// ---- never hangs, and says why ---------------------------------------------

TEST(MemoryContract, DisagreementIsNamedOnEveryRankAtOnce) {
  const auto began = std::chrono::steady_clock::now();
  argosy::testing::run_ranks(3, [](World& world) {
    const auto backend = make_backend(world, "g7");
    std::vector<float> data(8);
    const std::string text = message_of<InvalidArgument>([&] {
      const std::size_t count = world.rank() == 2 ? 4 : 8;
      backend->all_reduce(data.data(), data.data(), count, kSum, soon());
    });
    EXPECT_THAT(
        text,
        AllOf(
            HasSubstr("group g7"),
            HasSubstr("all_reduce of 8 float32, sum"),
            HasSubstr("rank 2 calls all_reduce of 4 float32, sum")));
    EXPECT_THROW(backend->barrier(soon()), PeerLost)
        << "the group is of no more use";
  });
  EXPECT_LT(std::chrono::steady_clock::now() - began, 1s);
}

TEST(MemoryContract, OtherOpsRootsAndTypesAreTold) {
  argosy::testing::run_ranks(2, [](World& world) {
    std::vector<float> data(8);
    const bool first = world.rank() == 0;
    const auto ops = make_backend(world, "ops");
    EXPECT_THAT(
        message_of<InvalidArgument>([&] {
          if (first) {
            ops->barrier(soon());
          } else {
            ops->broadcast(data.data(), 8, DType::Float32, 0, soon());
          }
        }),
        AllOf(HasSubstr("calls barrier"), HasSubstr("calls broadcast of 8")));
    const auto roots = make_backend(world, "roots");
    EXPECT_THAT(
        message_of<InvalidArgument>([&] {
          roots->broadcast(
              data.data(), 8, DType::Float32, first ? 0 : 1, soon());
        }),
        AllOf(HasSubstr("root 0"), HasSubstr("root 1")));
    const auto types = make_backend(world, "types");
    EXPECT_THAT(
        message_of<InvalidArgument>([&] {
          types->broadcast(
              data.data(), 8, first ? DType::Float32 : DType::Int32, 0, soon());
        }),
        AllOf(HasSubstr("float32"), HasSubstr("int32")));
  });
}

TEST(MemoryContract, AllToAllCountsThatDoNotMatch) {
  argosy::testing::run_ranks(3, [](World& world) {
    const auto backend = make_backend(world);
    std::vector<float> data(64);
    const Blocks sent = packed_blocks(data.data(), 3, 4, sizeof(float));
    Blocks expected = sent;
    if (world.rank() == 1) {
      expected[2].count = 5;
    }
    EXPECT_THAT(
        message_of<InvalidArgument>([&] {
          backend->all_to_all(sent, expected, DType::Float32, soon());
        }),
        HasSubstr("rank 2 sends 4 elements to rank 1, which expects 5"));
  });
}

} // namespace
} // namespace argosy::comm::memory
