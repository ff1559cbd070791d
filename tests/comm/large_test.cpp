// Tensors and messages with more elements than 31 bits count.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/types.h>
#include <unistd.h>

#include <cstring>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kHead = std::int64_t{1} << 31;
constexpr std::int64_t kTail = 4096; // a page
constexpr std::int64_t kCount = kHead + kTail;
constexpr int kRanks = 2;

// ---- Without the memory -----------------------------------------------------

// kCount bytes of address space. The head is one block of memory over and over,
// so that it stays in a cache; the tail, which what counts with 31 bits does
// not reach, has memory of its own.
class RepeatedBlock {
 public:
  RepeatedBlock() {
    fd_ = ::memfd_create("argosy-large-test", MFD_CLOEXEC);
    ARGOSY_CHECK(fd_ >= 0 && ::ftruncate(fd_, kBlock) == 0, "memfd");
    base_ = static_cast<char*>(map(nullptr, kCount, MAP_ANONYMOUS, -1));
    for (std::int64_t at = 0; at < kHead; at += kBlock) {
      map(base_ + at, kBlock, MAP_FIXED, fd_);
    }
  }
  ~RepeatedBlock() {
    ::munmap(base_, kCount);
    ::close(fd_);
  }
  RepeatedBlock(const RepeatedBlock&) = delete;
  RepeatedBlock& operator=(const RepeatedBlock&) = delete;

  at::Tensor tensor() const {
    return torch::from_blob(base_, {kCount}, torch::kChar);
  }

 private:
  static constexpr std::int64_t kBlock = std::int64_t{1} << 21;

  static void* map(void* at, std::int64_t bytes, int flags, int fd) {
    void* mapped = ::mmap(
        at,
        static_cast<std::size_t>(bytes),
        PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_NORESERVE | flags,
        fd,
        0);
    ARGOSY_CHECK(mapped != MAP_FAILED, "mmap");
    return mapped;
  }

  int fd_ = -1;
  char* base_ = nullptr;
};

// What the tests below do once, with any memory for `a` and `b`. The head of a
// rank holds one value, the tail another. Reductions take the maximum, because
// a block that is repeated would be added more than once.
class HeadAndTail {
 public:
  HeadAndTail(World& world, GroupPtr group, at::Tensor a, at::Tensor b)
      : rank_(world.rank()),
        group_(std::move(group)),
        a_(std::move(a)),
        b_(std::move(b)) {}

  void check_collectives() {
    fill(a_, rank_);
    all_reduce(a_, ReduceOp::MAX, group_);
    expect(a_, 1, 1, "all_reduce");

    fill(a_, rank_);
    broadcast(a_, 0, group_);
    expect(a_, 0, 0, "broadcast");

    fill(a_, rank_);
    reduce(a_, 0, ReduceOp::MAX, group_);
    expect(a_, 1, 1, "reduce");

    fill(a_, rank_);
    fill(b_, 5);
    alltoall_single(b_, a_, {}, group_);
    // Rank 0 gets the first halves, which have no tail.
    EXPECT_EQ(last(b_), rank_ == 0 ? head_value(1) : tail_value(1))
        << "alltoall_single";
  }

  void check_halves() {
    fill(a_, rank_);
    fill(b_, 5);
    const at::Tensor half = a_.narrow(0, kCount / 2, kCount / 2);
    all_gather(b_, half, group_);
    expect(b_, 0, 1, "all_gather");

    fill(a_, rank_);
    fill(b_, 5);
    const at::Tensor part = b_.narrow(0, kCount / 2, kCount / 2);
    reduce_scatter(part, a_, ReduceOp::MAX, group_);
    EXPECT_EQ(first(part), head_value(1)) << "reduce_scatter";
    EXPECT_EQ(last(part), rank_ == 0 ? head_value(1) : tail_value(1));
  }

  void check_messages() {
    fill(a_, rank_);
    if (rank_ == 0) {
      send(a_, 1, group_);
    } else {
      recv(a_, 0, group_);
    }
    expect(a_, 0, 0, "send");
  }

 private:
  static int head_value(int rank) { return 10 + rank; }
  static int tail_value(int rank) { return 20 + rank; }
  static int first(const at::Tensor& tensor) { return tensor[0].item<int>(); }
  static int last(const at::Tensor& tensor) { return tensor[-1].item<int>(); }

  static void fill(const at::Tensor& tensor, int rank) {
    tensor.narrow(0, 0, kHead).fill_(head_value(rank));
    tensor.narrow(0, kHead, kTail).fill_(tail_value(rank));
  }

  static void expect(
      const at::Tensor& tensor, int head, int tail, const char* what) {
    EXPECT_EQ(first(tensor), head_value(head)) << what;
    EXPECT_EQ(tensor[kHead - 1].item<int>(), head_value(tail)) << what;
    EXPECT_EQ(tensor[kHead].item<int>(), tail_value(tail)) << what;
    EXPECT_EQ(last(tensor), tail_value(tail)) << what;
  }

  const int rank_;
  const GroupPtr group_;
  const at::Tensor a_;
  const at::Tensor b_;
};

void check_repeated(World& world, const std::string& backend) {
  const RepeatedBlock a;
  const RepeatedBlock b;
  HeadAndTail check(world, new_group({}, backend), a.tensor(), b.tensor());
  check.check_collectives();
  check.check_messages();
  barrier(); // a peer may still read
}

TEST(Large, CollectivesAndMessagesReachTheTailOfThreads) {
  testing::run_ranks(
      kRanks, [](World& world) { check_repeated(world, "inproc"); }, 120s);
}

TEST(Large, CollectivesAndMessagesReachTheTailOfProcesses) {
  testing::run_process_ranks(
      kRanks, [](World& world) { check_repeated(world, "shm"); }, {}, 120s);
}

// ---- With the memory --------------------------------------------------------

class LargeBackends : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    All, LargeBackends, ::testing::Values("inproc", "gloo", "c10d"));

// 8.6 GB in all.
TEST_P(LargeBackends, SoakCollectivesAndMessagesReachTheTail) {
  testing::run_ranks(
      kRanks,
      [](World& world) {
        HeadAndTail check(
            world,
            new_group({}, GetParam()),
            torch::empty({kCount}, torch::kChar),
            torch::empty({kCount}, torch::kChar));
        check.check_collectives();
        check.check_halves();
        check.check_messages();
      },
      300s);
}

TEST(LargeProcesses, SoakCollectivesAndMessagesReachTheTail) {
  testing::run_process_ranks(
      kRanks,
      [](World& world) {
        HeadAndTail check(
            world,
            new_group({}, "shm"),
            torch::empty({kCount}, torch::kChar),
            torch::empty({kCount}, torch::kChar));
        check.check_collectives();
        check.check_halves();
        check.check_messages();
      },
      {},
      300s);
}

// Period of a prime number of bytes: no other place looks the same.
constexpr std::int64_t kPeriod = 65521;

std::vector<char> pattern_of(int rank) {
  std::vector<char> pattern(kPeriod);
  for (std::int64_t i = 0; i < kPeriod; ++i) {
    pattern[i] = static_cast<char>((i * 31 + i / 251 + 17 * rank) % 61);
  }
  return pattern;
}

// Calls `visit(begin, count)` for each repetition.
template <typename Visit>
void for_periods(const Visit& visit) {
  for (std::int64_t begin = 0; begin < kCount; begin += kPeriod) {
    visit(begin, static_cast<std::size_t>(std::min(kPeriod, kCount - begin)));
  }
}

// 4.3 GB in all.
TEST_P(LargeBackends, SoakSumsAreRightEverywhere) {
  testing::run_ranks(
      kRanks,
      [](World& world) {
        const at::Tensor data = torch::empty({kCount}, torch::kChar);
        auto* bytes = static_cast<char*>(data.data_ptr());
        const auto own = pattern_of(world.rank());
        for_periods([&](std::int64_t begin, std::size_t count) {
          std::memcpy(bytes + begin, own.data(), count);
        });
        all_reduce(data, ReduceOp::SUM, new_group({}, GetParam()));
        auto sum = pattern_of(0);
        const auto other = pattern_of(1);
        for (std::int64_t i = 0; i < kPeriod; ++i) {
          sum[i] = static_cast<char>(sum[i] + other[i]);
        }
        std::int64_t wrong = -1;
        for_periods([&](std::int64_t begin, std::size_t count) {
          if (std::memcmp(bytes + begin, sum.data(), count) != 0 && wrong < 0) {
            wrong = begin;
          }
        });
        EXPECT_EQ(wrong, -1);
      },
      300s);
}

} // namespace
} // namespace argosy
