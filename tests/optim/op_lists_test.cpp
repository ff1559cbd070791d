// Lists of ops for AutoCast: which type results have, that gradients flow, and
// that a list ends with its scope and stays in its thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "argosy/common/file.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/optim/autocast.h"
#include "argosy/optim/paddle_ops.h"
#include "argosy/pipeline/cut/cut_stage.h"
#include "argosy/recomputation/modules.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/tensor_parallel/layers.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::optim {
namespace {

using argosy::testing::refusal;
using argosy::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kLow = torch::kBFloat16;
constexpr auto kFull = torch::kFloat;

AutoCastLists white(const std::vector<std::string>& names) {
  return {names, {}};
}
AutoCastLists black(const std::vector<std::string>& names) {
  return {{}, names};
}

at::Tensor square() {
  return torch::ones({4, 4});
}
at::Tensor low_square() {
  return square().to(kLow);
}

TEST(OpLists, BlackOpsComputeInFloat32) {
  const AutoCast cast(true, kLow, black({"matmul_v2", "softmax", "aten::add"}));
  EXPECT_EQ(torch::matmul(square(), square()).scalar_type(), kFull);
  EXPECT_EQ(torch::linear(low_square(), square()).scalar_type(), kFull);
  EXPECT_EQ(square().mm(low_square()).scalar_type(), kFull);
  EXPECT_EQ(low_square().softmax(-1).scalar_type(), kFull);
  EXPECT_EQ((low_square() + low_square()).scalar_type(), kFull);
  // What is not listed follows LibTorch.
  EXPECT_EQ((low_square() * low_square()).scalar_type(), kLow);
  EXPECT_EQ(
      torch::conv1d(torch::ones({1, 4, 4}), torch::ones({4, 4, 1}))
          .scalar_type(),
      kLow);
}

TEST(OpLists, WhiteOpsComputeInBfloat16) {
  const AutoCast cast(
      true,
      kLow,
      white(
          {"tanh", "elementwise_add", "concat", "reduce_mean", "layer_norm"}));
  EXPECT_EQ(square().tanh().scalar_type(), kLow);
  EXPECT_EQ((square() + square()).scalar_type(), kLow);
  EXPECT_EQ(torch::cat({square(), low_square()}).scalar_type(), kLow);
  EXPECT_EQ(square().mean().scalar_type(), kLow);
  EXPECT_EQ(
      torch::layer_norm(square(), {4}, torch::ones({4}), torch::zeros({4}))
          .scalar_type(),
      kLow);
  EXPECT_EQ(square().sin().scalar_type(), kFull);
}

TEST(OpLists, LeaveOtherTypesAndWritesInPlaceAlone) {
  const AutoCast cast(true, kLow, {{"add"}, {"tanh"}});
  EXPECT_EQ((square().to(torch::kDouble) + 1).scalar_type(), torch::kDouble);
  EXPECT_EQ((torch::ones({2}, torch::kLong) + 1).scalar_type(), torch::kLong);
  at::Tensor x = square();
  x += 1;
  EXPECT_EQ(x.scalar_type(), kFull);
  EXPECT_EQ(low_square().tanh_().scalar_type(), kLow);
}

// An op within an op that is cast is not cast again: a softmax of float32 calls
// ops, too.
TEST(OpLists, TheOutermostOpDecides) {
  const AutoCast cast(true, kLow, {{"aten::_softmax"}, {"softmax"}});
  EXPECT_EQ(low_square().softmax(-1).scalar_type(), kFull);
}

TEST(OpLists, GradientsFlowInTheTypeOfTheWeights) {
  torch::nn::Linear layer(4, 4);
  const at::Tensor x = torch::randn({3, 4}).requires_grad_();
  at::Tensor y;
  {
    const AutoCast cast(true, kLow, {{"tanh"}, {"matmul"}});
    const at::Tensor h = layer(x);
    EXPECT_EQ(h.scalar_type(), kFull);
    y = h.tanh();
    EXPECT_EQ(y.scalar_type(), kLow);
  }
  y.to(kFull).sum().backward();
  const at::Tensor h = layer(x.detach());
  const at::Tensor slope = 1 - h.tanh().pow(2);
  EXPECT_EQ(layer->weight.grad().scalar_type(), kFull);
  EXPECT_TRUE(torch::allclose(
      layer->bias.grad(), slope.sum(0), /*rtol=*/0.02, /*atol=*/0.02));
  EXPECT_TRUE(torch::allclose(
      x.grad(), slope.mm(layer->weight), /*rtol=*/0.03, /*atol=*/0.03));
}

TEST(OpLists, EndWithTheScopeAndStayInTheThread) {
  const auto types = [] {
    return std::vector<at::ScalarType>{
        low_square().softmax(-1).scalar_type(), square().tanh().scalar_type()};
  };
  const std::vector<at::ScalarType> usual{kLow, kFull};
  const std::vector<at::ScalarType> listed{kFull, kLow};
  const AutoCastLists lists{{"tanh"}, {"softmax"}};
  {
    const AutoCast cast(true, kLow, lists);
    EXPECT_EQ(types(), listed);
    {
      const AutoCast inner; // lists of its own: none
      EXPECT_EQ(types(), usual);
    }
    {
      const AutoCast off(false);
      EXPECT_EQ(types(), usual);
      const AutoCast again(true, kLow, lists);
      EXPECT_EQ(types(), listed);
    }
    EXPECT_EQ(types(), listed);
    std::vector<at::ScalarType> elsewhere;
    std::vector<at::ScalarType> cast_elsewhere;
    std::thread([&] {
      elsewhere = types();
      const AutoCast plain;
      cast_elsewhere = types();
    }).join();
    EXPECT_EQ(elsewhere, usual);
    EXPECT_EQ(cast_elsewhere, usual);
  }
  EXPECT_EQ(types(), usual);
  const AutoCast later;
  EXPECT_EQ(types(), usual);
}

TEST(OpLists, SayWhatIsWrong) {
  EXPECT_THAT(
      refusal([] { white({"matmull"}); }),
      AllOf(
          HasSubstr("custom_white_list has \"matmull\""),
          HasSubstr("did you mean matmul?")));
  EXPECT_THAT(
      refusal([] { black({"elementwise_ad"}); }),
      HasSubstr("did you mean elementwise_add?"));
  EXPECT_THAT(
      refusal([] {
        AutoCastLists({"matmul_v2"}, {"softmax", "linear"});
      }),
      HasSubstr("both have linear"));
  EXPECT_THAT(
      refusal([] { white({"add_"}); }),
      HasSubstr("no op add_ that returns a new tensor"));
  EXPECT_THAT(
      refusal([] { white({"mul"}); }),
      AllOf(HasSubstr("aten::mul"), HasSubstr("matmul_v2")));
}

TEST(OpLists, TheTableOfPaddlesNamesIsInTheDocs) {
  const std::string page =
      read_file(ARGOSY_SOURCE_DIR "/docs/optim.md").value();
  for (const auto& [name, ops] : paddle_ops()) {
    std::string row = "| `" + name + "` | ";
    for (const std::string& op : ops) {
      row += (op == ops.front() ? "`" : ", `") + op + "`";
    }
    EXPECT_THAT(page, HasSubstr(row + " |\n"));
    EXPECT_NO_THROW(white({name})) << name;
  }
}

// ---- With other features ----------------------------------------------------

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear up = register_module("up", torch::nn::Linear(4, 8));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(8, 4));
  at::Tensor forward(const at::Tensor& x) {
    return down(up(x).tanh()).softmax(-1);
  }
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  Block one = register_module("one", Block());
  Block two = register_module("two", Block());
  at::Tensor forward(const at::Tensor& x) { return two(one(x)); }
};
TORCH_MODULE(Net);

const AutoCastLists& lists() {
  static const AutoCastLists kLists{{"tanh"}, {"softmax", "aten::addmm"}};
  return kLists;
}

std::vector<at::Tensor> gradients_of(const torch::nn::Module& net) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : net.parameters()) {
    all.push_back(each.grad().clone());
  }
  return all;
}

void expect_equal(
    const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& other) {
  ASSERT_EQ(some.size(), other.size());
  for (std::size_t i = 0; i < some.size(); ++i) {
    EXPECT_TRUE(torch::equal(some[i], other[i]))
        << i << ": " << (some[i] - other[i]).abs().max();
  }
}

Net seeded_net() {
  torch::manual_seed(5);
  return Net();
}

std::vector<at::Tensor> plain_gradients(const at::Tensor& x) {
  Net net = seeded_net();
  at::Tensor y;
  {
    const AutoCast cast(true, kLow, lists());
    y = net(x);
  }
  EXPECT_EQ(y.scalar_type(), kFull);
  y.pow(2).sum().backward();
  return gradients_of(*net);
}

// Backward runs the ops again outside of the scope.
TEST(OpLists, RecomputedOpsAreCastAgain) {
  const at::Tensor x = torch::randn({3, 4});
  const auto expected = plain_gradients(x);
  for (const bool by_name : {false, true}) {
    Net net = seeded_net();
    const RecomputedModules modules(*net, {"one"});
    at::Tensor y;
    {
      const AutoCast cast(true, kLow, lists());
      if (by_name) {
        const auto scope = modules.scope();
        y = net(x);
      } else {
        y = net->two(
            recompute([&](const at::Tensor& in) { return net->one(in); }, x));
      }
    }
    y.pow(2).sum().backward();
    expect_equal(gradients_of(*net), expected);
    EXPECT_EQ(low_square().softmax(-1).scalar_type(), kLow);
  }
}

TEST(OpListsRanks, CutPipelinesFollowThem) {
  run_ranks(1, [&](World&) {
    // Here, because ranks may choose other kernels for products.
    const at::Tensor x = torch::randn({3, 4});
    const auto expected = plain_gradients(x);
    Net net = seeded_net();
    pipeline::CutStage stage(
        pipeline::existing(net),
        {x},
        {.chunks = 2, .split_spec = {{"one", SplitPoint::END}}});
    const auto run = [&] { return stage.forward(1, stage.forward(0, {x}))[0]; };
    EXPECT_EQ(run().scalar_type(), kFull);
    at::Tensor y;
    {
      const AutoCast cast(true, kLow, lists());
      y = run();
    }
    y.pow(2).sum().backward();
    expect_equal(gradients_of(*net), expected);
    {
      const AutoCast cast;
      EXPECT_EQ(run().scalar_type(), kLow);
    }
  });
}

TEST(OpListsRanks, DTensorsFollowThem) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x = shard_tensor(square(), mesh, {Shard(0)});
    const at::Tensor low = shard_tensor(low_square(), mesh, {Shard(0)});
    const AutoCast cast(true, kLow, {{"tanh"}, {"matmul", "softmax"}});
    EXPECT_EQ(x.tanh().scalar_type(), kLow);
    EXPECT_EQ(torch::matmul(x, low).scalar_type(), kFull);
    EXPECT_EQ(to_local(low.softmax(-1)).scalar_type(), kFull);
    EXPECT_EQ(low.sin().scalar_type(), kLow);
  });
}

TEST(OpListsRanks, TensorParallelLayersFollowThem) {
  run_ranks(2, [](World&) {
    ColumnParallelLinear layer(ColumnParallelLinearOptions(4, 4));
    {
      const AutoCast cast;
      EXPECT_EQ(layer(square()).scalar_type(), kLow);
    }
    const AutoCast cast(true, kLow, black({"matmul_v2"}));
    EXPECT_EQ(layer(square()).scalar_type(), kFull);
  });
}

} // namespace
} // namespace argosy::optim
