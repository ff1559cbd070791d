#include "argosy/parallel/memory/keep_memory.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace argosy {
namespace {

TEST(KeepMemory, LargeTensorsGetTheSameMemoryAgain) {
  const auto before = torch::ones({1 << 20}); // by torch's own allocator
  keep_memory();
  keep_memory(); // again does nothing
  const void* place = torch::empty({1 << 20}).data_ptr();
  EXPECT_EQ(torch::empty({1 << 20}).data_ptr(), place);
  const auto kept = kept_memory();
  EXPECT_EQ(kept.in_use, 0u);
  EXPECT_GE(kept.held, std::size_t{4} << 20);
  EXPECT_EQ(before.sum().item<float>(), 1 << 20);
}

TEST(KeepMemory, TensorsOfAllSizesLiveAndDie) {
  keep_memory();
  std::vector<at::Tensor> tensors;
  for (std::int64_t size = 0; size < 1 << 18; size = 2 * size + 1) {
    tensors.push_back(torch::full({size}, size));
  }
  for (const at::Tensor& tensor : tensors) {
    EXPECT_TRUE(tensor.eq(tensor.numel()).all().item<bool>());
  }
  tensors.clear();
  EXPECT_EQ(kept_memory().in_use, 0u);
}

TEST(KeepMemory, SharedStorageOutlivesTheTensor) {
  keep_memory();
  at::Tensor part;
  {
    const auto whole = torch::arange(1 << 20);
    part = whole.slice(0, 100, 103);
  }
  torch::zeros({1 << 20}, torch::kLong);
  EXPECT_EQ(part.sum().item<std::int64_t>(), 303);
}

} // namespace
} // namespace argosy
