// Attention, as a function and in LibTorch's modules, against the unsharded
// ones.

#include <gtest/gtest.h>
#include <torch/nn.h>

#include "argosy/comm/group.h"
#include "argosy/comm/traffic.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::check_op_on;
using argosy::testing::exact_values;
using argosy::testing::leaf;
using argosy::testing::run_ranks;
using argosy::testing::same;
using argosy::testing::Tensors;

at::Tensor attention(const Tensors& x, bool is_causal) {
  return std::get<0>(at::_scaled_dot_product_attention(
      x[0], x[1], x[2], {}, 0.0, false, is_causal));
}

TEST(AttentionRanks, ScaledDotProduct) {
  for (const ProcessMesh& mesh :
       {ProcessMesh::of_shape({2}), ProcessMesh::of_shape({3})}) {
    for (const bool is_causal : {false, true}) {
      check_op_on(
          mesh,
          [=](const Tensors& x) { return attention(x, is_causal); },
          {leaf({2, 2, 3, 4}), leaf({2, 2, 3, 4}, 1), leaf({2, 2, 3, 4}, 2)});
    }
  }
}

// Batch and heads are cut: nothing is sent, forward and backward.
TEST(AttentionRanks, CutHeadsSendNothing) {
  run_ranks(4, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2, 2});
    Tensors x;
    for (const int seed : {0, 1, 2}) {
      x.push_back(
          shard_tensor(
              exact_values({2, 4, 3, 4}, seed), mesh, {Shard(0), Shard(1)})
              .requires_grad_());
    }
    const at::Tensor y = attention(x, true);
    EXPECT_EQ(placements_of(y), (Placements{Shard(0), Shard(1)}));
    y.sum().backward();
    for (const at::Tensor& each : x) {
      EXPECT_EQ(placements_of(each.grad()), (Placements{Shard(0), Shard(1)}));
    }
    EXPECT_EQ(get_group(0)->traffic().total().calls, 0u);
  });
}

void fill(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  int seed = 0;
  for (const at::Tensor& parameter : module.parameters()) {
    parameter.copy_(exact_values(parameter.sizes(), seed++) / 16);
  }
}

using Plan = std::function<Placements(const std::string& name)>;

void shard(
    torch::nn::Module& module, const ProcessMesh& mesh, const Plan& plan) {
  for (const auto& each : module.named_parameters()) {
    each.value().unsafeGetTensorImpl()->shallow_copy_from(
        shard_tensor(each.value().detach(), mesh, plan(each.key()))
            .getIntrusivePtr());
  }
}

// The output, and the gradients of the input and of all parameters.
template <typename Module>
Tensors results_of(Module& module, at::Tensor x) {
  x = x.detach().requires_grad_();
  at::Tensor y;
  if constexpr (std::is_same_v<Module, torch::nn::MultiheadAttention>) {
    y = std::get<0>(module->forward(x, x, x, {}, false));
  } else {
    y = module->forward(x);
  }
  (y * exact_values(y.sizes(), 3)).sum().backward();
  Tensors results{y.detach(), x.grad()};
  for (const at::Tensor& parameter : module->parameters()) {
    results.push_back(parameter.grad());
  }
  return results;
}

template <typename Make>
void check_module(
    const ProcessMesh& mesh,
    const Placements& data,
    const Plan& plan,
    const Make& make) {
  run_ranks(mesh.size(), [&](World&) {
    const at::Tensor x = exact_values({3, 4, 8}) / 4; // sequence, batch
    auto plain = make();
    fill(*plain);
    const Tensors expected = results_of(plain, x);
    auto module = make();
    fill(*module);
    shard(*module, mesh, plan);
    const Tensors results = results_of(module, shard_tensor(x, mesh, data));
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(same(full_tensor(results[i]), expected[i]))
          << i << "\n"
          << full_tensor(results[i]) << expected[i];
    }
  });
}

torch::nn::MultiheadAttention make_attention() {
  return torch::nn::MultiheadAttention(8, 2);
}

torch::nn::TransformerEncoderLayer make_encoder() {
  return torch::nn::TransformerEncoderLayer(
      torch::nn::TransformerEncoderLayerOptions(8, 2)
          .dim_feedforward(16)
          .dropout(0.0));
}

Placements replicated(const std::string&) {
  return {Replicate()};
}

// Weights by columns, then by rows.
Placements tensor_parallel(const std::string& name) {
  const bool is_first = name.find("in_proj") != std::string::npos ||
      name.find("linear1") != std::string::npos;
  const bool is_second = name.find("out_proj.weight") != std::string::npos ||
      name.find("linear2.weight") != std::string::npos;
  return {
      is_first        ? Placement(Shard(0))
          : is_second ? Placement(Shard(1))
                      : Placement(Replicate())};
}

TEST(AttentionRanks, Modules) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2});
  for (const Placement data :
       {Placement(Shard(1)), Placement(Shard(0)), Placement()}) {
    check_module(mesh, {data}, replicated, make_attention);
    check_module(mesh, {data}, replicated, make_encoder);
  }
  check_module(mesh, {Replicate()}, tensor_parallel, make_attention);
  check_module(mesh, {Replicate()}, tensor_parallel, make_encoder);
}

// What the modules ask of their arguments: true only if it is on all ranks.
TEST(AttentionRanks, EqualAsksAllRanks) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor a = exact_values({4, 3});
    at::Tensor b = a.clone();
    b[3][0] += 1;
    const at::Tensor x = shard_tensor(a, mesh, {Shard(0)});
    EXPECT_TRUE(torch::equal(x, x));
    EXPECT_FALSE(torch::equal(x, shard_tensor(b, mesh, {Shard(0)})));
    EXPECT_FALSE(torch::equal(x, shard_tensor(b, mesh, {Shard(1)})));
    EXPECT_FALSE(torch::equal(x, x.t()));
    EXPECT_EQ(get_group(0)->traffic().of(comm::OpKind::AllGather).calls, 0u);
  });
}

} // namespace
} // namespace argosy
