// Tensors in memory that other ranks can map.

#include "argosy/heap/allocator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "argosy/heap/heap.h"

namespace argosy {
namespace {

bool is_shared(const at::Tensor& tensor) {
  return heap::process_heap()->contains(tensor.data_ptr());
}

TEST(Allocator, LargeTensorsAreShared) {
  const at::Tensor before = at::ones({100'000});
  ASSERT_TRUE(share_tensor_memory());
  ASSERT_TRUE(share_tensor_memory()) << "again";
  EXPECT_FALSE(is_shared(before));
  EXPECT_FALSE(is_shared(at::ones({10}))) << "too small";
  const at::Tensor large = at::arange(100'000);
  EXPECT_TRUE(is_shared(large));
  EXPECT_TRUE(is_shared(large.clone()));
  EXPECT_TRUE(at::equal(large.add(1).sub(1), large));
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
    EXPECT_EQ(heap::process_heap()->contains(data), bytes == 100'000);
    allocator->raw_deallocate(data);
  }
}

TEST(Allocator, FreedMemoryIsUsedAgain) {
  ASSERT_TRUE(share_tensor_memory());
  const void* first = at::ones({100'000}).data_ptr();
  EXPECT_EQ(at::ones({100'000}).data_ptr(), first);
}

} // namespace
} // namespace argosy
