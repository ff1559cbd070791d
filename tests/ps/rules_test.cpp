#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "argosy/ps/table/rule_kernels.h"
#include "tests/ps/plain_table.h"

namespace argosy::ps {
namespace {

constexpr Rule kRules[] = {
    Rule::Naive,
    Rule::AdaGrad,
    Rule::StdAdaGrad,
    Rule::AdaGradV2,
    Rule::Adam,
    Rule::SharedAdam,
    Rule::Sum};

struct Part {
  std::vector<float> weights;
  std::vector<float> state;
};

Part new_part(const RuleConfig& rule, int dim) {
  Part part;
  part.weights.resize(static_cast<std::size_t>(dim));
  part.state.resize(static_cast<std::size_t>(state_size(rule.rule, dim)));
  if (rule.rule == Rule::Adam || rule.rule == Rule::SharedAdam) {
    part.state[part.state.size() - 2] = rule.beta1;
    part.state[part.state.size() - 1] = rule.beta2;
  }
  return part;
}

void update(
    simd::Isa isa,
    const RuleConfig& rule,
    Part& part,
    const std::vector<float>& gradient,
    float scale) {
  rule_kernels(isa).update_row[static_cast<int>(rule.rule)](
      rule,
      {part.weights.data(),
       part.state.data(),
       gradient.data(),
       gradient.size(),
       scale});
}

std::vector<float> random_floats(std::mt19937& random, std::size_t size) {
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

std::vector<simd::Isa> usable_isas() {
  std::vector<simd::Isa> isas;
  for (const auto isa :
       {simd::Isa::Baseline, simd::Isa::Avx2, simd::Isa::Avx512}) {
    if (isa <= simd::highest_isa()) {
      isas.push_back(isa);
    }
  }
  return isas;
}

class Rules : public ::testing::TestWithParam<Rule> {};

TEST_P(Rules, AgreeWithThePlainFormula) {
  std::mt19937 random(7);
  for (const int dim : {1, 2, 7, 8, 9, 16, 33, 64}) {
    RuleConfig rule{.rule = GetParam(), .min_weight = -3, .max_weight = 3};
    Part part = new_part(rule, dim);
    part.weights = random_floats(random, part.weights.size());
    auto plain = testing::plain_weights(rule, part.weights);
    for (int step = 0; step < 50; ++step) {
      const auto gradient = random_floats(random, part.weights.size());
      const float scale = static_cast<float>(1 + step % 4);
      update(simd::current_isa(), rule, part, gradient, scale);
      testing::plain_update(rule, plain, gradient, scale);
      for (std::size_t i = 0; i < part.weights.size(); ++i) {
        ASSERT_NEAR(part.weights[i], plain.w[i], 2e-5) << dim << ' ' << step;
      }
    }
  }
}

TEST_P(Rules, GiveTheSameBitsOnEveryInstructionSet) {
  std::mt19937 random(8);
  for (const int dim : {1, 3, 8, 13, 16, 40}) {
    const RuleConfig rule{.rule = GetParam()};
    const Part start = new_part(rule, dim);
    const auto gradient = random_floats(random, start.weights.size());
    const auto run = [&](simd::Isa isa) {
      Part part = start;
      for (int step = 0; step < 5; ++step) {
        update(isa, rule, part, gradient, 3);
      }
      return part;
    };
    const Part baseline = run(simd::Isa::Baseline);
    for (const simd::Isa isa : usable_isas()) {
      const Part other = run(isa);
      EXPECT_EQ(baseline.weights, other.weights) << to_string(isa);
      EXPECT_EQ(baseline.state, other.state) << to_string(isa);
    }
  }
}

// Weights and their state behind them, as tables hold rows.
std::vector<float> as_row(const Part& part) {
  std::vector<float> row = part.weights;
  row.insert(row.end(), part.state.begin(), part.state.end());
  return row;
}

TEST_P(Rules, GiveTheSameBitsForManyRowsAsForEach) {
  std::mt19937 random(9);
  const RuleConfig rule{
      .rule = GetParam(), .min_weight = -0.75, .max_weight = 0.75};
  const auto kernel = static_cast<int>(rule.rule);
  for (const int dim : {1, 8, 13, 16, 32, 40}) {
    const auto width = static_cast<std::size_t>(dim);
    Part first = new_part(rule, dim);
    Part second = new_part(rule, dim);
    first.weights = random_floats(random, width);
    second.weights = random_floats(random, width);
    const auto gradients = random_floats(random, 4 * width);
    for (const simd::Isa isa : usable_isas()) {
      std::vector<float> rows[] = {as_row(first), as_row(second)};
      // The first one comes again.
      float* const order[] = {
          rows[0].data(), rows[1].data(), rows[0].data(), rows[0].data()};
      rule_kernels(isa).update_rows[kernel](
          rule, {order, 4, gradients.data(), width});
      Part each[] = {first, second};
      for (const std::size_t i : {0, 1, 2, 3}) {
        const auto at = gradients.begin() + static_cast<long>(i * width);
        update(isa, rule, each[i == 1 ? 1 : 0], {at, at + dim}, 1);
      }
      EXPECT_EQ(rows[0], as_row(each[0])) << dim << ' ' << to_string(isa);
      EXPECT_EQ(rows[1], as_row(each[1])) << dim << ' ' << to_string(isa);
    }
  }
}

TEST(CopyRows, CopiesTheWeightsOfEach) {
  std::mt19937 random(10);
  for (const std::size_t dim : {1, 8, 13, 16, 32, 40}) {
    const std::vector<float> rows[] = {
        random_floats(random, dim + 1), random_floats(random, dim + 1)};
    const float* const order[] = {
        rows[1].data(), rows[0].data(), rows[1].data()};
    std::vector<float> expected;
    for (const int row : {1, 0, 1}) {
      expected.insert(expected.end(), rows[row].begin(), rows[row].end() - 1);
    }
    for (const simd::Isa isa : usable_isas()) {
      std::vector<float> out(3 * dim);
      rule_kernels(isa).copy_rows({order, 3, out.data(), dim});
      EXPECT_EQ(out, expected) << dim << ' ' << to_string(isa);
    }
  }
}

TEST_P(Rules, KeepWeightsWithinBounds) {
  const RuleConfig rule{
      .rule = GetParam(), .min_weight = -0.5, .max_weight = 0.25};
  Part part = new_part(rule, 9);
  for (int step = 0; step < 200; ++step) {
    update(simd::current_isa(), rule, part, std::vector<float>(9, -20), 1);
  }
  for (const float weight : part.weights) {
    EXPECT_EQ(weight, rule.rule == Rule::Sum ? -0.5f : 0.25f);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Rules, ::testing::ValuesIn(kRules), [](const auto& tested) {
      return std::string(to_string(tested.param));
    });

TEST(AdamRule, GoesOnWhenThePowersOfBetaVanish) {
  const RuleConfig rule{.rule = Rule::Adam};
  Part part = new_part(rule, 8);
  for (int step = 0; step < 60'000; ++step) {
    update(simd::current_isa(), rule, part, std::vector<float>(8, 1), 1);
  }
  EXPECT_EQ(part.state[16], 0);
  EXPECT_EQ(part.state[17], 0);
  EXPECT_TRUE(std::isfinite(part.weights[0]));
}

TEST(AllFinite, SeesEveryPlace) {
  for (const auto isa : {simd::Isa::Baseline, simd::highest_isa()}) {
    const auto finite = rule_kernels(isa).all_finite;
    for (const std::size_t size : {0, 1, 8, 21}) {
      std::vector<float> values(size, std::numeric_limits<float>::max());
      EXPECT_TRUE(finite(values.data(), size));
      for (float& value : values) {
        for (const float bad :
             {std::numeric_limits<float>::quiet_NaN(),
              std::numeric_limits<float>::infinity(),
              -std::numeric_limits<float>::infinity()}) {
          value = bad;
          EXPECT_FALSE(finite(values.data(), size));
        }
        value = -1;
      }
    }
  }
}

} // namespace
} // namespace argosy::ps
