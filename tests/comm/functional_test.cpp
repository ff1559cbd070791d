// Collectives inside models: values and gradients against one process that has
// the tensors of all ranks.

#include "argosy/comm/functional.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "argosy/common/error.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace argosy {
namespace {

namespace F = argosy::functional;

// Small integers, so that all sums are exact.
at::Tensor input_of(int rank, at::IntArrayRef shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  return ((torch::arange(count) * 7 + rank * 5) % 11 - 4)
      .to(torch::kFloat)
      .reshape(shape);
}

at::Tensor weight_of(int rank, const at::Tensor& like) {
  return ((torch::arange(like.numel()) * 3 + rank) % 5)
      .to(torch::kFloat)
      .reshape(like.sizes());
}

using Collective = std::function<at::Tensor(const at::Tensor&)>;
// The results of all ranks, from the inputs of all ranks.
using Oracle = std::function<Tensors(const Tensors&)>;

// The loss is the sum over ranks of a weighted sum of each one's result.
void compare(
    World& world,
    at::IntArrayRef shape,
    const Collective& collective,
    const Oracle& oracle) {
  Tensors inputs;
  for (int rank = 0; rank < world.size(); ++rank) {
    inputs.push_back(input_of(rank, shape).requires_grad_());
  }
  const Tensors expected = oracle(inputs);
  at::Tensor loss = torch::zeros({});
  for (int rank = 0; rank < world.size(); ++rank) {
    const at::Tensor& out = expected[static_cast<std::size_t>(rank)];
    loss = loss + (out * weight_of(rank, out)).sum();
  }
  const auto self = static_cast<std::size_t>(world.rank());
  const Tensors gradients =
      torch::autograd::grad({loss}, inputs, {}, {}, false, true);

  const at::Tensor own = input_of(world.rank(), shape).requires_grad_();
  const at::Tensor result = collective(own);
  EXPECT_TRUE(torch::equal(result, expected[self])) << result << expected[self];
  (result * weight_of(world.rank(), result)).sum().backward();
  EXPECT_TRUE(torch::equal(
      own.grad(),
      gradients[self].defined() ? gradients[self] : torch::zeros(shape)))
      << own.grad();
}

class Functional : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Functional, ::testing::Values(1, 2, 3, 4));

Tensors same_for_all(const at::Tensor& tensor, std::size_t n) {
  return Tensors(n, tensor);
}

TEST_P(Functional, AllReduce) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    compare(
        world,
        {3, 5},
        [](const at::Tensor& in) { return F::all_reduce(in); },
        [](const Tensors& ins) {
          return same_for_all(torch::stack(ins).sum(0), ins.size());
        });
  });
}

TEST_P(Functional, ReduceAndBroadcast) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    const int root = world.size() - 1;
    compare(
        world,
        {4},
        [&](const at::Tensor& in) { return F::reduce(in, root); },
        [&](const Tensors& ins) {
          Tensors outs = same_for_all(torch::zeros({4}), ins.size());
          outs.back() = torch::stack(ins).sum(0);
          return outs;
        });
    compare(
        world,
        {4},
        [&](const at::Tensor& in) { return F::broadcast(in, root); },
        [&](const Tensors& ins) {
          return same_for_all(ins.back(), ins.size());
        });
  });
}

TEST_P(Functional, AllGatherAlongAnyDim) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    for (const std::int64_t dim : {0, 1, -1}) {
      compare(
          world,
          {2, 3, 2},
          [&](const at::Tensor& in) { return F::all_gather(in, nullptr, dim); },
          [&](const Tensors& ins) {
            return same_for_all(torch::cat(ins, dim), ins.size());
          });
    }
  });
}

TEST_P(Functional, ReduceScatterAlongAnyDim) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    const int n = world.size();
    for (const std::int64_t dim : {0, 1}) {
      compare(
          world,
          {2 * n, 3 * n},
          [&](const at::Tensor& in) {
            return F::reduce_scatter(in, ReduceOp::SUM, nullptr, dim);
          },
          [&](const Tensors& ins) {
            return torch::stack(ins).sum(0).chunk(n, dim);
          });
    }
  });
}

TEST_P(Functional, GatherAndScatter) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    const int n = world.size();
    compare(
        world,
        {2, 3},
        [&](const at::Tensor& in) { return F::gather(in, n - 1); },
        [&](const Tensors& ins) {
          Tensors outs = same_for_all(torch::zeros({0, 3}), ins.size());
          outs.back() = torch::cat(ins);
          return outs;
        });
    compare(
        world,
        {2 * n, 3},
        [&](const at::Tensor& in) { return F::scatter(in, n - 1); },
        [&](const Tensors& ins) { return ins.back().chunk(n); });
  });
}

TEST_P(Functional, AllToAll) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    const int n = world.size();
    const auto oracle = [&](const Tensors& ins) {
      Tensors outs;
      for (int to = 0; to < n; ++to) {
        Tensors parts;
        for (const at::Tensor& in : ins) {
          parts.push_back(in.chunk(n)[static_cast<std::size_t>(to)]);
        }
        outs.push_back(torch::cat(parts));
      }
      return outs;
    };
    compare(
        world,
        {2 * n, 3},
        [](const at::Tensor& in) { return F::alltoall_single(in); },
        oracle);
    compare(
        world,
        {2 * n, 3},
        [&](const at::Tensor& in) {
          return torch::cat(F::alltoall(in.chunk(n)));
        },
        oracle);
  });
}

TEST(Functional, AllToAllWithUnevenSplits) {
  argosy::testing::run_ranks(2, [](World& world) {
    // Rank 0 keeps one row and sends two; rank 1 sends none.
    const bool first = world.rank() == 0;
    const std::vector<std::int64_t> in = {first ? 1 : 0, first ? 2 : 3};
    const std::vector<std::int64_t> out = {first ? 1 : 2, first ? 0 : 3};
    compare(
        world,
        {3, 2},
        [&](const at::Tensor& rows) {
          return F::alltoall_single(rows, {.out = out, .in = in});
        },
        [](const Tensors& ins) -> Tensors {
          return {
              ins[0].narrow(0, 0, 1),
              torch::cat({ins[0].narrow(0, 1, 2), ins[1]})};
        });
  });
}

TEST(Functional, MaxGoesToThoseWhoHadIt) {
  argosy::testing::run_ranks(3, [](World& world) {
    // Place 0: rank 2 alone has the greatest; place 1: ranks 0 and 1 share it.
    const std::vector<std::vector<float>> values = {{1, 5}, {2, 5}, {3, 4}};
    at::Tensor own =
        torch::tensor(values[static_cast<std::size_t>(world.rank())]);
    own.requires_grad_();
    const at::Tensor most = F::all_reduce(own, ReduceOp::MAX);
    EXPECT_TRUE(torch::equal(most, torch::tensor({3.0f, 5.0f})));
    most.sum().backward();
    const std::vector<std::vector<float>> expected = {
        {0, 1.5}, {0, 1.5}, {3, 0}};
    EXPECT_TRUE(torch::equal(
        own.grad(),
        torch::tensor(expected[static_cast<std::size_t>(world.rank())])));
    EXPECT_THROW(F::all_reduce(own, ReduceOp::PROD), InvalidArgument);
  });
}

TEST(Functional, AverageScalesTheGradient) {
  argosy::testing::run_ranks(2, [](World& world) {
    at::Tensor own = torch::full({3}, 2.0f * world.rank()).requires_grad_();
    const at::Tensor mean = F::all_reduce(own, ReduceOp::AVG);
    EXPECT_TRUE(torch::equal(mean, torch::ones({3})));
    mean.sum().backward();
    EXPECT_TRUE(torch::equal(own.grad(), torch::ones({3})));
  });
}

TEST(Functional, SecondDerivatives) {
  argosy::testing::run_ranks(2, [](World& world) {
    at::Tensor own = torch::full({2}, world.rank() + 2.0f).requires_grad_();
    // f = sum over ranks of y^3, y = x0 + x1 = 5.
    const at::Tensor loss = F::all_reduce(own).pow(3).sum();
    const at::Tensor first =
        torch::autograd::grad({loss}, {own}, {}, true, true)[0];
    EXPECT_TRUE(torch::equal(first, torch::full({2}, 2 * 3 * 25.0f)));
    first.sum().backward();
    // Each rank's first is 6 y^2, and both ranks' depend on x.
    EXPECT_TRUE(torch::equal(own.grad(), torch::full({2}, 2 * 12 * 5.0f)));
  });
}

TEST(Functional, PairsOfTensorParallelism) {
  argosy::testing::run_ranks(2, [](World& world) {
    // y = relu(x A) B, A cut by columns, B by rows.
    const at::Tensor x = input_of(0, {3, 4}).requires_grad_();
    const at::Tensor a = input_of(1, {4, 6}).requires_grad_();
    const at::Tensor b = input_of(2, {6, 2}).requires_grad_();
    const at::Tensor expected = x.mm(a).relu().mm(b);
    expected.pow(2).sum().backward();

    const at::Tensor own_x = x.detach().clone().requires_grad_();
    const at::Tensor own_a =
        a.detach().chunk(2, 1)[world.rank()].clone().requires_grad_();
    const at::Tensor own_b =
        b.detach().chunk(2, 0)[world.rank()].clone().requires_grad_();
    const at::Tensor y =
        F::mp_allreduce(F::c_identity(own_x).mm(own_a).relu().mm(own_b));
    EXPECT_TRUE(torch::equal(y, expected));
    y.pow(2).sum().backward();
    EXPECT_TRUE(torch::equal(own_x.grad(), x.grad()));
    EXPECT_TRUE(torch::equal(own_a.grad(), a.grad().chunk(2, 1)[world.rank()]));
    EXPECT_TRUE(torch::equal(own_b.grad(), b.grad().chunk(2, 0)[world.rank()]));
  });
}

TEST(Functional, SplitAndConcatUndoEachOther) {
  argosy::testing::run_ranks(3, [](World& world) {
    const at::Tensor x = input_of(0, {2, 6}).requires_grad_();
    const at::Tensor part = F::c_split(x);
    EXPECT_TRUE(torch::equal(part, x.detach().chunk(3, 1)[world.rank()]));
    const at::Tensor whole = F::c_concat(part * 2);
    EXPECT_TRUE(torch::equal(whole, x.detach() * 2));
    (whole * weight_of(0, whole)).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), 2 * weight_of(0, whole)));
    EXPECT_THROW(F::c_split(x, nullptr, 2), InvalidArgument);
    EXPECT_THROW(F::scatter(x), InvalidArgument) << "2 rows for 3 ranks";
  });
}

// 5 in 4 parts of 2, 2, 1 and 0.
at::Tensor uneven_part(const at::Tensor& whole, int rank, std::int64_t dim) {
  const std::int64_t begin = std::min<std::int64_t>(5, rank * 2);
  return whole.narrow(dim, begin, std::min<std::int64_t>(2, 5 - begin));
}

TEST(Functional, PartsNeedNotBeEqual) {
  argosy::testing::run_ranks(4, [](World& world) {
    for (const std::int64_t dim : {0, 1, 2}) {
      const at::Tensor x = input_of(0, {5, 5, 5}).requires_grad_();
      const at::Tensor part = F::c_split(x, nullptr, dim);
      EXPECT_TRUE(
          torch::equal(part, uneven_part(x.detach(), world.rank(), dim)));
      const at::Tensor whole = F::c_concat(part * 2, nullptr, dim, 5);
      EXPECT_TRUE(torch::equal(whole, x.detach() * 2));
      (whole * weight_of(0, whole)).sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), 2 * weight_of(0, whole)));

      const at::Tensor own = input_of(world.rank(), {5, 5, 5}).requires_grad_();
      const at::Tensor sum =
          F::reduce_scatter(own, ReduceOp::SUM, nullptr, dim);
      at::Tensor expected = torch::zeros({5, 5, 5});
      for (int rank = 0; rank < 4; ++rank) {
        expected += input_of(rank, {5, 5, 5});
      }
      EXPECT_TRUE(torch::equal(sum, uneven_part(expected, world.rank(), dim)));
      const at::Tensor again = F::all_gather(sum, nullptr, dim, 5);
      EXPECT_TRUE(torch::equal(again, expected));
      (again * weight_of(world.rank(), again)).sum().backward();
      at::Tensor weights = torch::zeros({5, 5, 5});
      for (int rank = 0; rank < 4; ++rank) {
        weights += weight_of(rank, again);
      }
      EXPECT_TRUE(torch::equal(own.grad(), weights));
      EXPECT_THROW(F::c_concat(part, nullptr, dim, 16), InvalidArgument);
    }
  });
}

} // namespace
} // namespace argosy
