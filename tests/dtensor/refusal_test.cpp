// What DTensors refuse rather than get wrong, and what they do on ranks that
// have no part.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "argosy/common/error.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::exact_values;
using argosy::testing::run_ranks;
using ::testing::HasSubstr;

std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(RefusalRanks, SaysWhatToDoInstead) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh({2});
    const at::Tensor x = shard_tensor(exact_values({4, 3}), mesh, {Shard(1)});
    const at::Tensor plain = exact_values({4, 3});
    EXPECT_THAT(
        refusal_of([&] { x + plain.clone().requires_grad_(); }),
        HasSubstr("Make it one with shard_tensor()"));
    EXPECT_THAT(
        refusal_of([&] { plain.clone().add_(x); }),
        HasSubstr("argument self is a plain tensor"));
    EXPECT_THAT(
        refusal_of([&] { x.view({12}).add_(1); }),
        HasSubstr("is a view whose base is sharded in another way"));
    EXPECT_THAT(
        refusal_of([&] { x.resize_({3}); }), HasSubstr("changes the shape"));
    EXPECT_THAT(
        refusal_of([&] { torch::poisson(x); }),
        HasSubstr("is random and has no sharding rule"));
    const at::Tensor other =
        shard_tensor(plain, ProcessMesh({2}, {1, 0}, {}), {Shard(0)});
    EXPECT_THAT(
        refusal_of([&] { x + other; }), HasSubstr("tensors on two meshes"));
  });
}

// Views of the same cut do reach their base.
TEST(RefusalRanks, TakesViewsThatAreViews) {
  run_ranks(2, [](World&) {
    const at::Tensor value = exact_values({4, 3});
    const at::Tensor x = shard_tensor(value, ProcessMesh({2}), {Shard(0)});
    x.view({12}).add_(1);
    x.t().mul_(2);
    EXPECT_TRUE(torch::equal(full_tensor(x), (value + 1) * 2));
  });
}

TEST(RefusalRanks, RanksOutsideKnowShapesOnly) {
  run_ranks(3, [](World& world) {
    const at::Tensor value = exact_values({4, 3});
    const at::Tensor x =
        shard_tensor(value, ProcessMesh({2}), {Shard(0)}).requires_grad_();
    const at::Tensor y = (x * 2).t().matmul(x);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({3, 3}));
    y.sum().backward();
    EXPECT_EQ(x.grad().sizes(), x.sizes());
    if (world.rank() == 2) {
      EXPECT_EQ(to_local(y.detach()).numel(), 0);
      EXPECT_THROW(y.sum().item<float>(), InvalidArgument);
    } else {
      EXPECT_TRUE(
          torch::equal(full_tensor(y.detach()), (value * 2).t().matmul(value)));
    }
  });
}

// Errors of arguments come up as they do without us.
TEST(RefusalRanks, WrongArguments) {
  run_ranks(2, [](World&) {
    const at::Tensor x =
        shard_tensor(exact_values({4, 3}), ProcessMesh({2}), {Shard(0)});
    EXPECT_THROW(x.matmul(x), c10::Error);
    EXPECT_THROW(x.view({5}), std::exception);
  });
}

} // namespace
} // namespace argosy
