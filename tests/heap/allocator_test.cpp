// Tensors in memory that other ranks can map.

#include "argosy/heap/allocator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "argosy/heap/heap.h"

namespace argosy {
namespace {

bool is_shared(const at::Tensor& tensor) {
  return heap::shared_heap()->contains(tensor.data_ptr());
}

// First, as there is no way back.
TEST(Allocator, MemoryIsKeptThenShared) {
  const at::Tensor before = at::ones({100'000});
  keep_tensor_memory();
  const void* place = at::ones({100'000}).data_ptr();
  EXPECT_EQ(at::ones({100'000}).data_ptr(), place);
  EXPECT_EQ(heap::shared_heap(), nullptr) << "nobody asked for it";
  at::Tensor kept = at::arange(100'000);

  ASSERT_TRUE(share_tensor_memory());
  ASSERT_TRUE(share_tensor_memory()) << "again";
  keep_tensor_memory(); // does not go back
  EXPECT_FALSE(is_shared(before));
  EXPECT_FALSE(is_shared(kept));
  EXPECT_FALSE(is_shared(at::ones({10}))) << "too small";
  const at::Tensor large = at::arange(100'000);
  EXPECT_TRUE(is_shared(large));
  EXPECT_TRUE(is_shared(large.clone()));
  EXPECT_TRUE(at::equal(large.add(1).sub(1), kept));
  kept.reset(); // to the heap that it came from
}

TEST(Allocator, ResizingKeepsValues) {
  ASSERT_TRUE(share_tensor_memory());
  at::Tensor tensor = at::arange(5);
  tensor.resize_({50'000});
  EXPECT_EQ(tensor[4].item<std::int64_t>(), 4);
  EXPECT_TRUE(is_shared(tensor));
  tensor.resize_({500'000});
  EXPECT_EQ(tensor[4].item<std::int64_t>(), 4);
}

TEST(Allocator, RawMemoryOfBothKindsIsFreed) {
  ASSERT_TRUE(share_tensor_memory());
  c10::Allocator* allocator = c10::GetCPUAllocator();
  for (const std::size_t bytes : {100, 100'000}) {
    void* data = allocator->raw_allocate(bytes);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(heap::shared_heap()->contains(data), bytes == 100'000);
    allocator->raw_deallocate(data);
  }
}

TEST(Allocator, FreedMemoryIsUsedAgain) {
  ASSERT_TRUE(share_tensor_memory());
  const void* first = at::ones({100'000}).data_ptr();
  EXPECT_EQ(at::ones({100'000}).data_ptr(), first);
}

TEST(Allocator, TensorsOfAllSizesLiveAndDie) {
  keep_tensor_memory();
  std::vector<at::Tensor> tensors;
  for (std::int64_t size = 0; size < 1 << 18; size = 2 * size + 1) {
    tensors.push_back(at::full({size}, size));
  }
  for (const at::Tensor& tensor : tensors) {
    EXPECT_TRUE(tensor.eq(tensor.numel()).all().item<bool>());
  }
}

} // namespace
} // namespace argosy
