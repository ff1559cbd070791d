// Backward in two halves equals the whole bit for bit, keeps little in between,
// and leaves the products for weights to the second.

#include "argosy/torch_hooks/split_backward.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/autocast.h"
#include "argosy/recomputation/recompute.h"
#include "examples/02_gpt/gpt.h"
#include "tests/pipeline/backward_checks.h"
#include "tests/support/refusal.h"

namespace argosy::pipeline {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;
using testing::refusal;

Part gpt_block() {
  Block block(GptOptions{.width = 16, .heads = 4});
  return {
      [block](const Tensors& in) mutable {
        const at::Tensor ahead = torch::ones({6, 6}, torch::kBool).triu(1);
        return Tensors{block->forward(in[0], ahead)};
      },
      block->parameters(),
      {floats({3, 6, 16}, 1)}};
}

TEST(SplitBackward, OfLinearLayers) {
  for (const bool bias : {false, true}) {
    const nn::LinearOptions options = nn::LinearOptions(7, 5).bias(bias);
    expect_as_whole(part_of(nn::Linear(options), floats({7}, 1)));
    expect_as_whole(part_of(nn::Linear(options), floats({4, 7}, 2)));
    expect_as_whole(part_of(nn::Linear(options), floats({3, 4, 7}, 3)));
    expect_as_whole(part_of(nn::Linear(options), floats({2, 3, 4, 7}, 4)));
  }
}

TEST(SplitBackward, OfNormsAndRandomOnes) {
  expect_as_whole(part_of(
      nn::Sequential(
          nn::Linear(7, 9),
          nn::LayerNorm(nn::LayerNormOptions({9})),
          nn::GELU(),
          nn::Dropout(0.3),
          nn::Linear(9, 5),
          nn::Tanh()),
      floats({11, 7}, 1)));
}

TEST(SplitBackward, OfConvolutions) {
  expect_as_whole(part_of(
      nn::Sequential(
          nn::Conv2d(nn::Conv2dOptions(2, 4, 3).padding(1)),
          nn::BatchNorm2d(4),
          nn::ReLU(),
          nn::Conv2d(nn::Conv2dOptions(4, 4, 3).groups(2).bias(false)),
          nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 3, 2).stride(2)),
          nn::AvgPool2d(2)),
      floats({3, 2, 8, 8}, 1)));
}

TEST(SplitBackward, OfAnAttentionBlock) {
  expect_as_whole(gpt_block());
}

TEST(SplitBackward, OfARecurrentNetwork) {
  nn::LSTM lstm(nn::LSTMOptions(5, 6).num_layers(2));
  expect_as_whole(
      {[&](const Tensors& in) {
         return Tensors{std::get<0>(lstm->forward(in[0]))};
       },
       lstm->parameters(),
       {floats({4, 3, 5}, 1)}});
}

TEST(SplitBackward, OfWhatNoInputNeeds) {
  Gpt gpt(GptOptions{.vocab = 13, .context = 8, .width = 16, .layers = 1});
  const at::Tensor tokens =
      ((floats({2, 8}, 3) + 1) * 5000).to(torch::kLong).remainder(13);
  expect_as_whole(part_of(gpt, tokens));
}

// Many summands for one gradient, from ops that are split and that are not.
TEST(SplitBackward, OfATiedWeight) {
  const at::Tensor weight = parameter({6, 6}, 1);
  const at::Tensor bias = parameter({6}, 2);
  expect_as_whole(
      {[&](const Tensors& in) {
         at::Tensor x = torch::linear(in[0], weight, bias).tanh();
         x = torch::linear(x * bias + x * weight[0], weight, bias);
         x = torch::linear(x.sin(), weight, bias) * weight[1];
         return Tensors{torch::addmm(bias, x, weight) + bias};
       },
       {weight, bias},
       {floats({5, 6}, 3)}});
}

// Nodes behind weights, some of them for several products.
TEST(SplitBackward, OfWeightsThatAreComputed) {
  const at::Tensor direction = parameter({6, 6}, 1);
  const at::Tensor length = parameter({6, 1}, 2);
  expect_as_whole(
      {[&](const Tensors& in) {
         const at::Tensor weight = length * direction / direction.norm(2, 1);
         at::Tensor x = in[0];
         for (int i = 0; i < 4; ++i) {
           x = torch::linear(x, weight).tanh() * length.view({-1});
         }
         return Tensors{x, weight.exp()};
       },
       {direction, length},
       {floats({5, 6}, 3)}});
}

TEST(SplitBackward, OfBatchedProducts) {
  const at::Tensor weights = parameter({3, 6, 4}, 1);
  const at::Tensor vector = parameter({4}, 2);
  const at::Tensor biases = parameter({3, 5, 4}, 3);
  expect_as_whole(
      {[&](const Tensors& in) {
         const at::Tensor x = torch::baddbmm(biases, in[0], weights);
         return Tensors{
             torch::bmm(in[0].sin(), weights), torch::matmul(x, vector)};
       },
       {weights, vector, biases},
       {floats({3, 5, 6}, 4)}});
}

TEST(SplitBackward, OfBranches) {
  const at::Tensor weight = parameter({6, 6}, 1);
  const at::Tensor unused = parameter({6, 6}, 2);
  const at::Tensor own = parameter({5, 6}, 3);
  const Part part{
      [&](const Tensors& in) {
        const at::Tensor x = torch::mm(in[0], weight) + in[0] * in[1];
        return Tensors{
            x + torch::mm(x, weight).relu() + in[0],
            in[1], // as it came
            torch::mm(in[0], weight).detach(),
            torch::mm(own, weight), // of no input
            torch::mm(x.sin(), unused)};
      },
      {weight, unused, own},
      {floats({5, 6}, 4), floats({5, 6}, 5), floats({2}, 6)}};
  expect_as_whole(part);
  forget_gradients(part);
  Microbatch microbatch = forward(part, 1);
  microbatch.gradients[4].reset();
  SplitBackward halves;
  const Tensors gradients =
      halves.input(microbatch.outputs, microbatch.gradients, microbatch.inputs);
  halves.weight();
  EXPECT_TRUE(gradients[0].defined());
  EXPECT_FALSE(gradients[2].defined());
  EXPECT_FALSE(unused.grad().defined());
}

TEST(SplitBackward, OfViewsThatAreWrittenTo) {
  const at::Tensor weight = parameter({6, 6}, 1);
  const at::Tensor scale = parameter({2}, 2);
  const at::Tensor more = parameter({5, 6}, 3);
  expect_as_whole(
      {[&](const Tensors& in) {
         at::Tensor x = torch::mm(in[0], weight);
         x.narrow(1, 0, 2).mul_(scale);
         x.narrow(1, 2, 3).addmm_(in[0], weight.narrow(1, 0, 3));
         at::Tensor y = torch::mm(x, weight);
         y.add_(more);
         y.select(0, 1).copy_(more[0]);
         return Tensors{y, x.view({-1}).narrow(0, 3, 9)};
       },
       {weight, scale, more},
       {floats({5, 6}, 4)}});
}

// Before main: later, oneDNN may have begun to use what AutoCast forbids it.
const bool kAutoCastIsReady = [] {
  const optim::AutoCast cast;
  return true;
}();

TEST(SplitBackward, OfAutocast) {
  ASSERT_TRUE(kAutoCastIsReady);
  nn::Sequential net(nn::Linear(7, 9), nn::GELU(), nn::Linear(9, 5));
  expect_as_whole(
      {[&](const Tensors& in) {
         const optim::AutoCast autocast;
         return Tensors{net->forward(
             net->forward<at::Tensor>(in[0]).repeat({1, 2}).narrow(1, 0, 7))};
       },
       net->parameters(),
       {floats({11, 7}, 1)}});
}

TEST(SplitBackward, FrozenWeightsHaveNoSecondHalf) {
  const at::Tensor weight = parameter({6, 6}, 1);
  const at::Tensor frozen = floats({6, 6}, 2);
  expect_as_whole(
      {[&](const Tensors& in) {
         return Tensors{in[0].mm(frozen).relu().mm(weight).mm(frozen)};
       },
       {weight},
       {floats({5, 6}, 3)}});
  expect_as_whole(
      {[&](const Tensors& in) { return Tensors{in[0].mm(frozen).relu()}; },
       {},
       {floats({5, 6}, 3)}});
}

// Recomputed layers run forward twice, as in a whole backward.
TEST(SplitBackward, OfRecomputedBlocks) {
  Part part = gpt_block();
  int calls = 0;
  const auto block = [&calls, inner = part.forward](const Tensors& in) {
    ++calls;
    return inner({torch::dropout(in[0], 0.3, true)});
  };
  part.forward = [&](const Tensors& in) {
    return recompute(block, recompute(block, in));
  };
  expect_as_whole(part);
  EXPECT_EQ(calls, 2 * 3 * 4);
  part.forward = [&](const Tensors& in) {
    return recompute(
        [&](const Tensors& x) { return block(recompute(block, x)); }, in);
  };
  expect_as_whole(part);
}

// Each hook once, with the same gradient.
TEST(SplitBackward, CallsHooksOnce) {
  const at::Tensor weight = parameter({6, 6}, 1);
  Tensors seen;
  const auto see = [&](const at::Tensor& gradient) {
    seen.push_back(gradient.clone());
  };
  const auto remove =
      weight.register_hook([&](const at::Tensor& gradient) { see(gradient); });
  at::Tensor middle;
  const Part part{
      [&](const Tensors& in) {
        middle = in[0].mm(weight);
        middle.retain_grad();
        middle.register_hook([&](const at::Tensor& gradient) {
          see(gradient);
          return gradient * 2;
        });
        return Tensors{middle.relu().mm(weight).mm(weight)};
      },
      {weight},
      {floats({5, 6}, 2)}};
  const auto run = [&](const std::function<void(Microbatch)>& backward) {
    seen.clear();
    forget_gradients(part);
    backward(forward(part, 1));
    return Tensors{weight.grad(), middle.grad()};
  };
  const Tensors expected = run(whole_backward);
  const Tensors seen_by_whole = seen;
  ASSERT_EQ(seen.size(), 2u);
  const Tensors got = run([&](const Microbatch& microbatch) {
    SplitBackward halves;
    halves.input(microbatch.outputs, microbatch.gradients, microbatch.inputs);
    EXPECT_EQ(seen.size(), 1u); // that of the result in the middle
    halves.weight();
  });
  expect_equal(got, expected);
  expect_equal(seen, seen_by_whole);
  weight.remove_hook(remove);
}

// How often the calling thread runs an operation.
class CountCalls {
 public:
  explicit CountCalls(const char* op) {
    wanted = op;
    calls = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&begin).scopes({at::RecordScope::FUNCTION}));
  }
  ~CountCalls() { at::removeCallback(handle_); }

  int take() { return std::exchange(calls, 0); }

 private:
  static std::unique_ptr<at::ObserverContext> begin(
      const at::RecordFunction& call) {
    calls += std::string_view(call.name()) == wanted ? 1 : 0;
    return nullptr;
  }

  static inline thread_local std::string_view wanted;
  static inline thread_local int calls = 0;
  at::CallbackHandle handle_;
};

TEST(SplitBackward, LeavesProductsForWeightsToTheSecondHalf) {
  const Part part = gpt_block();
  const Microbatch microbatch = forward(part, 1);
  SplitBackward halves;
  CountCalls products("aten::mm");
  halves.input(microbatch.outputs, microbatch.gradients, microbatch.inputs);
  EXPECT_EQ(products.take(), 4);
  halves.weight();
  EXPECT_EQ(products.take(), 4);
}

TEST(SplitBackward, KeepsInputsOfProductsAndGradients) {
  const nn::Linear up(8, 32);
  const nn::Linear down(32, 8);
  const at::Tensor x = floats({100, 8}, 1).requires_grad_();
  const at::Tensor gradient = floats({100, 8}, 2);
  const std::int64_t wide = 100 * 32 * sizeof(float);
  const TensorMemory memory;
  const auto forward_through = [&] {
    return Tensors{torch::linear(
                       torch::gelu(torch::linear(x, up->weight, up->bias)),
                       down->weight,
                       down->bias)
                       .tanh()};
  };
  const std::int64_t before = memory.current();
  SplitBackward halves;
  Tensors gradients;
  {
    const Tensors outputs = forward_through();
    gradients = halves.input(outputs, {gradient}, {x});
  }
  // The result of gelu and the gradient of its argument; the gradients of x and
  // of tanh's argument.
  EXPECT_EQ(memory.current() - before, 2 * wide + wide / 2);
  halves.weight();
  std::int64_t weights = 0;
  for (const at::Tensor& each :
       {up->weight, up->bias, down->weight, down->bias}) {
    weights += static_cast<std::int64_t>(each.grad().nbytes());
  }
  EXPECT_EQ(memory.current() - before, wide / 4 + weights);
}

TEST(SplitBackward, RefusesWhatItCannotDo) {
  const at::Tensor x = floats({2}, 1).requires_grad_();
  const at::Tensor y = x * 2;
  SplitBackward halves;
  EXPECT_THAT(
      refusal([&] { halves.weight(); }), HasSubstr("weight() before input()"));
  EXPECT_THAT(
      refusal([&] { halves.input({y}, {}, {x}); }),
      HasSubstr("0 gradients, expected one for each of 1 outputs"));
  EXPECT_THAT(
      refusal([&] { halves.input({y * 2}, {y}, {y}); }),
      HasSubstr("input 0 is the result of an operation"));
  halves.input({y}, {x.detach()}, {x});
  EXPECT_THAT(
      refusal([&] { halves.input({x * 2}, {x.detach()}, {x}); }),
      HasSubstr("input() twice"));
  halves.weight();
}

} // namespace
} // namespace argosy::pipeline
