// Storages that own a value in their own block of memory.

#include "argosy/torch_hooks/wrapper_tensor.h"

#include <gtest/gtest.h>

#include <memory>

namespace argosy::torch_hooks {
namespace {

struct Value {
  std::shared_ptr<int> counted;
};

TEST(Wrapper, OwnsItsValueAsLongAsATensorHasTheStorage) {
  const auto counted = std::make_shared<int>(7);
  at::Tensor alias;
  {
    const at::Tensor wrapper = make_wrapper(
        Value{counted},
        {.sizes = {2, 3}, .dtype = caffe2::TypeMeta::Make<float>()});
    EXPECT_EQ(counted.use_count(), 2);
    EXPECT_EQ(*find_owned<Value>(wrapper)->counted, 7);
    EXPECT_EQ(find_owned<std::string>(wrapper), nullptr);
    alias = alias_of(wrapper);
  }
  EXPECT_EQ(counted.use_count(), 2);
  EXPECT_EQ(find_owned<Value>(alias)->counted, counted);
  alias.reset();
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(Wrapper, KeepsItsValueWhileMemoryComesAndGoes) {
  const auto counted = std::make_shared<int>(7);
  float memory[2] = {};
  c10::Storage storage = make_owning_storage(sizeof(memory), Value{counted});
  set_memory(storage, memory);
  EXPECT_EQ(storage.data(), memory);
  EXPECT_EQ(counted.use_count(), 2);
  set_memory(storage, nullptr);
  EXPECT_EQ(counted.use_count(), 2);
  storage = c10::Storage();
  EXPECT_EQ(counted.use_count(), 1);
}

// A weak reference keeps the block, but not the value.
TEST(Wrapper, DestroysItsValueOnce) {
  const auto counted = std::make_shared<int>(7);
  auto storage =
      c10::make_intrusive<OwningStorage<Value>>(0, Value{counted}, c10::kCPU);
  c10::weak_intrusive_ptr<OwningStorage<Value>> weak(storage);
  storage.reset();
  EXPECT_EQ(counted.use_count(), 1);
  weak.reset();
  EXPECT_EQ(counted.use_count(), 1);
}

} // namespace
} // namespace argosy::torch_hooks
