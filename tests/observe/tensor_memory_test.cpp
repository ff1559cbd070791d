// Counted bytes of tensors, by rank.

#include "argosy/observe/tensor_memory.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <thread>

#include "argosy/comm/ops.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"

namespace argosy {
namespace {

constexpr std::int64_t kMegabyte = 1 << 20;

at::Tensor megabytes(std::int64_t count) {
  return torch::zeros({count * kMegabyte / 4});
}

TEST(TensorMemory, CurrentAndPeak) {
  TensorMemory meter;
  const std::int64_t before = meter.current();
  at::Tensor kept = megabytes(1);
  {
    const at::Tensor gone = megabytes(2);
    EXPECT_EQ(meter.current(), before + 3 * kMegabyte);
  }
  EXPECT_EQ(meter.current(), before + kMegabyte);
  EXPECT_EQ(meter.peak(), before + 3 * kMegabyte);
  meter.reset_peak();
  EXPECT_EQ(meter.peak(), before + kMegabyte);

  kept.resize_({kMegabyte}); // by the allocator that the storage remembers
  EXPECT_EQ(meter.current(), before + 4 * kMegabyte);
  kept = at::Tensor();
  EXPECT_EQ(meter.current(), before);
}

// Views and empty tensors have no memory of their own; backward counts too.
TEST(TensorMemory, ViewsAndGradients) {
  TensorMemory meter;
  const at::Tensor x = megabytes(1).requires_grad_();
  const std::int64_t before = meter.current();
  const at::Tensor view = x.detach().view({-1, 4}).t();
  const at::Tensor empty = torch::empty({0});
  EXPECT_EQ(meter.current(), before);
  x.sum().backward();
  EXPECT_GE(meter.current(), before + kMegabyte);
}

TEST(TensorMemoryRanks, EachCountsItsOwn) {
  std::vector<at::Tensor> left(3);
  std::vector<std::int64_t> counted(3);
  testing::run_ranks(3, [&](World& world) {
    TensorMemory meter;
    left[world.rank()] = megabytes(world.rank() + 1);
    barrier();
    EXPECT_EQ(meter.current(), (world.rank() + 1) * kMegabyte);
    barrier();
    // Freed by another rank, and still the maker's.
    left[(world.rank() + 1) % 3] = at::Tensor();
    barrier();
    counted[world.rank()] = meter.current();
  });
  EXPECT_EQ(counted, (std::vector<std::int64_t>{0, 0, 0}));
}

// A further thread of a rank counts for that rank.
TEST(TensorMemoryRanks, ThreadsOfARank) {
  testing::run_ranks(2, [](World&) {
    TensorMemory meter;
    at::Tensor made;
    std::thread([&, world = current_world()] {
      const WorldScope scope(world);
      made = megabytes(1);
    }).join();
    EXPECT_EQ(meter.current(), kMegabyte);
  });
}

// Over the heap that processes share: their collectives still work in place.
TEST(TensorMemoryRanks, Processes) {
  testing::run_process_ranks(2, [](World& world) {
    TensorMemory meter;
    const at::Tensor tensor = megabytes(1) + world.rank();
    EXPECT_EQ(meter.current(), kMegabyte);
    EXPECT_GE(meter.peak(), 2 * kMegabyte);
    all_reduce(tensor);
    EXPECT_EQ(tensor.sum().item<float>(), tensor.numel());
  });
}

} // namespace
} // namespace argosy
