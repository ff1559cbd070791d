#include "argosy/ps/table/dense_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "argosy/common/error.h"
#include "argosy/ps/table/barrier_table.h"
#include "argosy/ps/table/geo_recorder.h"
#include "argosy/ps/table/global_step.h"
#include "argosy/ps/table/reservoir.h"
#include "tests/ps/support.h"

namespace argosy::ps {
namespace {

using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Keys;
using ::testing::ThrowsMessage;

// One element of a dense table, in doubles.
struct PlainElement {
  double w = 0.5;
  double a = 0;
  double b = 0;
  double c = 0;

  void step(const DenseConfig& config, double g, int t) {
    const double lr = config.learning_rate;
    switch (config.rule) {
      case DenseRule::Sgd:
        w -= lr * g;
        break;
      case DenseRule::Adam: {
        a = 0.9 * a + 0.1 * g;
        b = 0.999 * b + 0.001 * g * g;
        const double m = a / (1 - std::pow(0.9, t));
        const double v = b / (1 - std::pow(0.999, t));
        w -= lr * m / (std::sqrt(v) + 1e-8);
        break;
      }
      case DenseRule::AdamD2Sum: {
        a = a * config.ada_decay_rate + 1;
        b = b * config.ada_decay_rate + g * g;
        const double small = a * config.ada_epsilon;
        c = (c + g) * config.moment_decay_rate - g;
        w += lr * c * std::sqrt((a + small) / (b + small));
        break;
      }
      case DenseRule::Sum:
        w += g;
        break;
      case DenseRule::Summary:
        w = w * 0.999999 + g;
        break;
      case DenseRule::AdaGrad:
        a += g * g;
        w -= lr * g / (std::sqrt(a) + 1e-8);
        break;
      case DenseRule::Momentum:
        a = 0.9 * a + g;
        w -= lr * a;
        break;
    }
  }
};

class DenseRules : public ::testing::TestWithParam<const char*> {};

TEST_P(DenseRules, AgreeWithThePlainFormula) {
  for (const std::size_t size : {0, 1, 8, 13, 100}) {
    DenseTable table({.rule = dense_rule(GetParam())}, size);
    table.set_values(Floats(size, 0.5f));
    std::vector<PlainElement> plain(size);
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    for (int t = 1; t <= 40; ++t) {
      table.set_learning_rate(0.1f / static_cast<float>(t)); // a schedule
      Floats gradient(size);
      for (std::size_t i = 0; i < size; ++i) {
        gradient[i] = normal(random);
        plain[i].step(table.config(), gradient[i], t);
      }
      table.push(gradient);
    }
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_NEAR(
          table.values()[i], plain[i].w, 2e-5 * (1 + std::abs(plain[i].w)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    DenseRules,
    ::testing::Values(
        "sgd", "adam", "adam_d2sum", "sum", "summary", "adagrad", "momentum"));

TEST(DenseTable, RefusesBadInput) {
  DenseTable table({.name = "fc"}, 3);
  EXPECT_THAT(
      [&] { table.push(Floats(4)); },
      ThrowsMessage<InvalidArgument>(
          HasSubstr("dense table 'fc': 4 floats, expected 3")));
  EXPECT_THAT(
      [&] {
        table.push(Floats{0, INFINITY, 0});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("element 1 is inf")));
  EXPECT_EQ(table.steps(), 0);
  EXPECT_THROW(table.set_values(Floats(2)), InvalidArgument);
  EXPECT_THROW(table.set_learning_rate(NAN), InvalidArgument);
  EXPECT_THROW(table.set_state({Floats(3)}, 1), InvalidArgument);
  EXPECT_THROW((DenseTable({.beta1 = 1}, 1)), InvalidArgument);
  EXPECT_THAT(
      [] { dense_rule("rmsprop"); },
      ThrowsMessage<InvalidArgument>(HasSubstr("sgd, adam, adam_d2sum")));
  EXPECT_EQ(to_string(DenseRule::AdamD2Sum), "adam_d2sum");
}

TEST(DenseTable, ClearsToZeros) {
  DenseTable table({.rule = DenseRule::Momentum}, 2);
  table.push(Floats{1, 2});
  table.clear();
  EXPECT_THAT(table.values(), ElementsAre(0, 0));
  EXPECT_THAT(table.column(0), ElementsAre(0, 0));
  EXPECT_EQ(table.num_columns(), 1);
}

TEST(DenseReservoir, AveragesInTheOrderOfTrainers) {
  const Floats parts[] = {{1e8f, 1}, {-1e8f, 2}, {1, 3}};
  Floats first;
  for (const auto& order :
       std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    DenseReservoir reservoir(3, 2);
    for (const int trainer : order) {
      EXPECT_FALSE(reservoir.complete());
      reservoir.push(trainer, parts[trainer]);
    }
    const Floats mean = reservoir.pour();
    EXPECT_THAT(mean, ElementsAre(1.0f / 3, 2)); // (1e8 - 1e8) + 1
    reservoir.push(0, parts[0]);                 // the next step
    reservoir.push(2, parts[2]);
    EXPECT_THAT(
        [&] { reservoir.pour(); },
        ThrowsMessage<InvalidArgument>(HasSubstr("trainers 1")));
    EXPECT_THROW(reservoir.push(2, parts[2]), InvalidArgument);
    EXPECT_THROW(reservoir.push(3, parts[2]), InvalidArgument);
    EXPECT_THROW(reservoir.push(1, Floats(1)), InvalidArgument);
    reservoir.clear();
    reservoir.push(0, parts[0]);
  }
}

TEST(SparseReservoir, SumsKeysInTheOrderOfTrainers) {
  // slot, show, click, gradient
  SparseReservoir reservoir(2, 4);
  reservoir.push(1, Keys{7, 3}, Floats{9, 1, 0, 2, 9, 1, 1, 4});
  reservoir.push(0, Keys{7}, Floats{8, 2, 1, 6});
  const auto merged = reservoir.pour(3, true, 2);
  EXPECT_THAT(merged.keys, ElementsAre(3, 7));
  EXPECT_THAT(merged.records, ElementsAre(9, 1, 1, 2, 9, 3, 1, 4));
  EXPECT_THAT(reservoir.pour(3, true, 1).keys, IsEmpty());
  EXPECT_THROW(reservoir.push(2, Keys{}, Floats{}), InvalidArgument);
  EXPECT_THROW(reservoir.push(0, Keys{1}, Floats{1}), InvalidArgument);
}

TEST(GeoRecorder, TellsEveryOtherTrainerOnce) {
  GeoRecorder recorder(3);
  recorder.record(0, Keys{5, 3});
  recorder.record(1, Keys{3, 8});
  EXPECT_EQ(recorder.waiting(2), 4u);
  EXPECT_THAT(recorder.take(0), ElementsAre(3, 8));
  EXPECT_THAT(recorder.take(0), IsEmpty());
  EXPECT_THAT(recorder.take(1), ElementsAre(3, 5));
  EXPECT_THAT(recorder.take(2), ElementsAre(3, 5, 8));
  EXPECT_THROW(recorder.take(3), InvalidArgument);
  EXPECT_THROW(recorder.record(-1, Keys{}), InvalidArgument);
}

TEST(GeoRecorder, ATrainerThatNeverAsksCostsNoMoreThanTheKeys) {
  GeoRecorder recorder(2);
  const Keys keys = testing::range(0, 1000);
  for (int i = 0; i < 100; ++i) {
    recorder.record(0, keys);
  }
  EXPECT_LE(recorder.waiting(1), 3000u);
  EXPECT_EQ(recorder.take(1), keys);
}

TEST(BarrierTable, OpensWhenAllHaveArrived) {
  BarrierTable barrier(3);
  EXPECT_FALSE(barrier.arrive(2));
  EXPECT_FALSE(barrier.arrive(0));
  EXPECT_THROW(barrier.arrive(0), InvalidArgument);
  EXPECT_THROW(barrier.arrive(3), InvalidArgument);
  EXPECT_THAT(barrier.missing(), ElementsAre(1));
  barrier.withdraw(0);
  barrier.withdraw(1);
  EXPECT_THAT(barrier.missing(), ElementsAre(0, 1));
  EXPECT_FALSE(barrier.arrive(1));
  EXPECT_TRUE(barrier.arrive(0));
  EXPECT_EQ(barrier.rounds(), 1);
  EXPECT_FALSE(barrier.arrive(0));
}

TEST(GlobalStep, CountsStepsOfAllTrainers) {
  GlobalStep step(2);
  EXPECT_EQ(step.add(0, 3), 3);
  EXPECT_EQ(step.add(1, 2), 5);
  EXPECT_EQ(step.of(1), 2);
  EXPECT_THROW(step.add(2, 1), InvalidArgument);
  EXPECT_THROW(step.add(0, -1), InvalidArgument);
  step.set_total(100);
  EXPECT_EQ(step.add(0, 1), 101);
  EXPECT_EQ(step.total(), 101);
}

} // namespace
} // namespace argosy::ps
