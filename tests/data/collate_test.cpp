#include "argosy/data/collate.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/data/loader.h"
#include "tests/store/expect.h"

namespace argosy::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

TEST(Collate, StacksTensors) {
  EXPECT_TRUE(at::equal(
      stack_tensors({at::full({3}, 1), at::full({3}, 2)}).sum(1),
      at::tensor({3, 6}, at::kFloat)));
  EXPECT_THAT(
      message_of<InvalidArgument>([] {
        stack_tensors({at::full({3}, 1), at::full({2}, 2)});
      }),
      HasSubstr("a sample of shape [2]"));
  EXPECT_THAT(
      message_of<InvalidArgument>([] { stack_tensors({}); }),
      HasSubstr("no samples"));
}

TEST(Collate, StacksImages) {
  const std::vector<std::uint8_t> dark{0, 51};
  const std::vector<std::uint8_t> light{255, 204};
  const auto batch = stack_images({{dark, 2, 1, 7}, {light, 2, 1, 9}});
  EXPECT_TRUE(at::equal(
      batch.input, at::tensor({0.0F, 0.2F, 1.0F, 0.8F}).reshape({2, 1, 2, 1})));
  EXPECT_TRUE(at::equal(batch.target, at::tensor({7, 9}, at::kLong)));
  EXPECT_THAT(
      message_of<InvalidArgument>([&] {
        stack_images({{dark, 2, 1, 7}, {{}, 0, 1, 9}});
      }),
      HasSubstr("a sample of 0 values, expected 2"));
}

TEST(Collate, WindowsBecomeInputsAndTargets) {
  const std::vector<std::int64_t> ids{1, 2, 3, 4, 5};
  const TokenDataset dataset(Tokens(ids), 2);
  DataLoader loader(
      dataset,
      DistributedBatchSampler(dataset, {.batch_size = 2}),
      stack_windows);
  const auto batch = loader.next();
  EXPECT_TRUE(at::equal(
      batch->input, at::tensor({1, 2, 3, 4}, at::kLong).reshape({2, 2})));
  EXPECT_TRUE(at::equal(
      batch->target, at::tensor({2, 3, 4, 5}, at::kLong).reshape({2, 2})));
  EXPECT_FALSE(loader.next());
}

TEST(Collate, ExamplesOfADatasetOfTensors) {
  struct Squares {
    std::int64_t size() const { return 5; }
    Example get(std::int64_t i) const {
      return {at::full({2}, i), at::full({}, i * i)};
    }
  };
  DataLoader loader(
      Squares(),
      DistributedBatchSampler(5, {.batch_size = 4}),
      stack_examples,
      {.num_threads = 2});
  const auto batch = loader.next();
  EXPECT_EQ(batch->input.sizes(), (std::vector<std::int64_t>{4, 2}));
  EXPECT_TRUE(at::equal(
      batch->target, at::tensor({0, 1, 4, 9}, batch->target.options())));
}

} // namespace
} // namespace argosy::data
