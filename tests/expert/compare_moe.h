#pragma once

#include <gtest/gtest.h>

#include "argosy/expert/expert_cut.h"
#include "argosy/training/parameter_marks.h"
#include "tests/expert/dense_moe.h"
#include "tests/support/numbers.h"

// Compares a layer whose experts are spread over ranks with one that has all.
namespace argosy::testing {

constexpr long kWidth = 6;

struct Tolerance {
  double relative = 1e-9;
  double absolute = 1e-11;
};

inline void expect_close(
    const at::Tensor& got,
    const at::Tensor& expected,
    const std::string& what,
    const Tolerance& tolerance = {}) {
  EXPECT_TRUE(
      got.defined() && got.sizes() == expected.sizes() &&
      got.scalar_type() == expected.scalar_type() &&
      torch::allclose(got, expected, tolerance.relative, tolerance.absolute))
      << what << "\n"
      << got << "\n"
      << expected;
}

// Tokens of one rank: other numbers of them on each.
using TokenCounts = std::function<long(int rank)>;
inline const TokenCounts kUneven = [](int rank) { return 9 + 4 * rank; };
inline const TokenCounts kNoneOnTheLast = [](int rank) {
  return rank + 1 == get_group(0)->nranks() ? 0 : 11;
};

inline at::Tensor tokens_of(long count, int rank, at::ScalarType type) {
  return numbers({count, kWidth}, 17 + rank).to(type).requires_grad_();
}

// As what the layer is followed by.
inline at::Tensor loss_of(
    const at::Tensor& y, int rank, const at::Tensor& extra) {
  const at::Tensor weight = numbers(y.sizes(), 90 + rank).to(y.scalar_type());
  const at::Tensor loss = (y * weight).sum();
  return extra.defined() ? loss + extra * 0.3 : loss;
}

// The experts of this rank, of all of them.
inline at::Tensor local_part(const at::Tensor& whole, const Group& group) {
  const auto own =
      expert::experts_of(whole.size(0), {group.nranks(), group.rank()});
  return whole.narrow(0, own.begin, own.size);
}

inline void expect_same_gate(
    GateImpl& own, GateImpl& whole, const GroupPtr& group, Tolerance limits) {
  const auto expected = whole.named_parameters();
  for (const auto& item : own.named_parameters()) {
    const at::Tensor sum = item.value().grad().clone();
    all_reduce(sum, ReduceOp::SUM, group);
    expect_close(sum, expected[item.key()].grad(), item.key(), limits);
  }
}

inline void expect_same_experts(
    const MoELayer& own,
    const MoELayer& whole,
    const Group& group,
    Tolerance limits) {
  if (own->grouped) {
    const auto expected = whole->grouped->named_parameters();
    for (const auto& item : own->grouped->named_parameters()) {
      const at::Tensor& wanted = expected[item.key()];
      expect_close(item.value(), local_part(wanted, group), item.key(), {0, 0});
      expect_close(
          item.value().grad(),
          local_part(wanted.grad(), group),
          item.key() + ".grad",
          limits);
    }
    return;
  }
  const auto expected = whole->named_parameters();
  for (const auto& item : own->named_parameters()) {
    if (marks_of(item.value()).is_expert) {
      const at::Tensor& wanted = expected[item.key()];
      expect_close(item.value(), wanted, item.key(), {0, 0});
      expect_close(
          item.value().grad(), wanted.grad(), item.key() + ".grad", limits);
    }
  }
}

struct PairCheck {
  at::ScalarType type = torch::kDouble;
  TokenCounts tokens = kUneven;
  Tolerance limits = {};
  // Changes both layers before they are used.
  std::function<void(MoELayer&)> prepare = [](MoELayer&) {};
};

// Forward and backward of a pair, with the tokens of all ranks for the whole.
inline void check_pair(Pair pair, World& world, const PairCheck& check) {
  const GroupPtr group = get_group(0);
  check.prepare(pair.own);
  check.prepare(pair.whole.layer());
  at::Tensor own_x, own_y, whole_x, whole_y;
  at::Tensor sum = torch::zeros({}, check.type);
  for (int rank = 0; rank < world.size(); ++rank) {
    const at::Tensor x = tokens_of(check.tokens(rank), rank, check.type);
    const at::Tensor y = pair.whole.forward(x);
    sum = sum + loss_of(y, rank, pair.whole.layer()->get_loss());
    if (rank == world.rank()) {
      whole_x = x;
      whole_y = y;
    }
  }
  sum.backward();
  own_x = tokens_of(check.tokens(world.rank()), world.rank(), check.type);
  own_y = pair.own(own_x);
  loss_of(own_y, world.rank(), pair.own->get_loss()).backward();
  expect_close(own_y, whole_y, "y", check.limits);
  expect_close(own_x.grad(), whole_x.grad(), "x.grad", check.limits);
  expect_same_gate(
      *pair.own->gate, *pair.whole.layer()->gate, group, check.limits);
  expect_same_experts(pair.own, pair.whole.layer(), *group, check.limits);
}

} // namespace argosy::testing
