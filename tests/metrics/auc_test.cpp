// AUC and its kin against a plain count of pairs, on one worker and several.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <random>

#include "argosy/comm/group.h"
#include "argosy/common/error.h"
#include "argosy/metrics/calculators.h"
#include "argosy/metrics/over_workers.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::metrics {
namespace {

using argosy::testing::refusal;
using argosy::testing::run_ranks;
using ::testing::HasSubstr;

struct Sample {
  std::int64_t user;
  float prediction;
  float label;
  data::LogKey key;
};

// Predictions are multiples of 1/64, so that with 64 buckets none are put
// together, and many are equal.
std::vector<Sample> some_samples(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) {
    const float prediction = static_cast<float>(random() % 64) / 64;
    samples.push_back(
        {.user = static_cast<std::int64_t>(random() % 7) - 3,
         .prediction = prediction,
         .label = static_cast<float>(random() % 100) < prediction * 100 ? 1.0F
                                                                        : 0.0F,
         .key = {
             .cmatch = static_cast<std::uint32_t>(random() % 3),
             .rank = static_cast<std::uint32_t>(random() % 2)}});
  }
  return samples;
}

// Every pair of a positive and a negative sample.
double auc_by_pairs(const std::vector<Sample>& samples) {
  double right = 0;
  double pairs = 0;
  for (const Sample& positive : samples) {
    for (const Sample& negative : samples) {
      if (positive.label == 1 && negative.label == 0) {
        ++pairs;
        right += positive.prediction > negative.prediction ? 1
            : positive.prediction == negative.prediction   ? 0.5
                                                           : 0;
      }
    }
  }
  return pairs == 0 ? 0.5 : right / pairs;
}

struct Columns {
  at::Tensor users;
  at::Tensor predictions;
  at::Tensor labels;
  std::vector<data::LogKey> keys;

  explicit Columns(const std::vector<Sample>& samples) {
    std::vector<std::int64_t> of_users;
    std::vector<float> of_predictions;
    std::vector<float> of_labels;
    for (const Sample& sample : samples) {
      of_users.push_back(sample.user);
      of_predictions.push_back(sample.prediction);
      of_labels.push_back(sample.label);
      keys.push_back(sample.key);
    }
    users = torch::tensor(of_users, torch::kLong);
    predictions = torch::tensor(of_predictions).unsqueeze(1);
    labels = torch::tensor(of_labels).unsqueeze(1);
  }
};

TEST(Auc, IsThatOfAllPairs) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    const auto samples = some_samples(300, seed);
    const Columns columns(samples);
    AucCalculator calculator({.num_buckets = 64});
    calculator.add(
        columns.predictions.slice(0, 0, 100), columns.labels.slice(0, 0, 100));
    calculator.add(
        columns.predictions.slice(0, 100), columns.labels.slice(0, 100));
    const AucResult result = calculator.result();
    EXPECT_DOUBLE_EQ(result.auc, auc_by_pairs(samples));
    EXPECT_EQ(result.count, 300);
    const auto errors = (columns.predictions - columns.labels).to(at::kDouble);
    EXPECT_NEAR(result.mae, errors.abs().mean().item<double>(), 1e-12);
    EXPECT_NEAR(
        result.rmse, errors.square().mean().sqrt().item<double>(), 1e-12);
    EXPECT_NEAR(
        result.actual_ctr,
        columns.labels.to(at::kDouble).mean().item<double>(),
        1e-12);
    EXPECT_NEAR(result.copc, result.actual_ctr / result.predicted_ctr, 1e-12);
    calculator.clear();
    EXPECT_EQ(calculator.result().count, 0);
  }
}

TEST(Auc, OfOneKindOfLabelIsAHalf) {
  AucCalculator calculator;
  EXPECT_EQ(calculator.result().auc, 0.5);
  calculator.add(torch::tensor({0.1F, 1.0F, 0.0F}), torch::ones({3}));
  EXPECT_EQ(calculator.result().auc, 0.5);
  EXPECT_EQ(calculator.result().count, 3);
  calculator.add(torch::tensor({0.05F}), torch::zeros({1}));
  EXPECT_NEAR(calculator.result().auc, 2.0 / 3, 1e-12);
}

// Twice as many clicks as predicted, and as many as predicted.
TEST(Auc, BucketErrorIsTheErrorOfTheRates) {
  const auto with_rate = [](double predicted, double actual, int count) {
    AucCalculator calculator({.num_buckets = 1000});
    const auto clicks = static_cast<std::int64_t>(actual * count + 0.5);
    calculator.add(
        torch::full({count}, predicted),
        torch::cat({torch::ones({clicks}), torch::zeros({count - clicks})}));
    return calculator.result();
  };
  EXPECT_NEAR(with_rate(0.2505, 0.25, 100000).bucket_error, 0, 1e-9);
  EXPECT_NEAR(with_rate(0.2505, 0.5, 100000).bucket_error, 1, 1e-9);
  EXPECT_NEAR(with_rate(0.2505, 0.5, 100000).copc, 0.5 / 0.2505, 1e-5);
  // Of 16 samples the rate is known to 43 % only.
  EXPECT_EQ(with_rate(0.2505, 0.5, 16).bucket_error, 0);
}

TEST(Auc, CountsChosenSamplesAlone) {
  const auto samples = some_samples(400, 5);
  const Columns columns(samples);
  const at::Tensor mask = torch::arange(400).remainder(3).ne(0);
  const auto expected = [&](const auto& is_chosen) {
    std::vector<Sample> chosen;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (is_chosen(i, samples[i].key)) {
        chosen.push_back(samples[i]);
      }
    }
    return auc_by_pairs(chosen);
  };
  const auto result_of = [&](const char* places, const Selection& selection) {
    AucOptions options{.num_buckets = 64};
    if (places != nullptr) {
      options.places = Places(places);
    }
    AucCalculator calculator(options);
    calculator.add(columns.predictions, columns.labels, selection);
    return calculator.result().auc;
  };
  EXPECT_DOUBLE_EQ(
      result_of(nullptr, {.mask = &mask}),
      expected([](std::size_t i, auto) { return i % 3 != 0; }));
  EXPECT_DOUBLE_EQ(
      result_of("1:0,2:1", {.log_keys = &columns.keys}),
      expected([](std::size_t, const data::LogKey& key) {
        return (key.cmatch == 1 && key.rank == 0) ||
            (key.cmatch == 2 && key.rank == 1);
      }));
  EXPECT_DOUBLE_EQ(
      result_of("2", {.mask = &mask, .log_keys = &columns.keys}),
      expected([](std::size_t i, const data::LogKey& key) {
        return i % 3 != 0 && key.cmatch == 2;
      }));
}

TEST(Auc, OfSeveralTasksTakesThePredictionOfThePlace) {
  const auto samples = some_samples(400, 6);
  const Columns columns(samples);
  AucCalculator calculator({.num_buckets = 64, .places = Places("0,1")});
  const at::Tensor reversed = 63.0 / 64 - columns.predictions;
  calculator.add(
      {columns.predictions, reversed},
      columns.labels,
      {.log_keys = &columns.keys});
  std::vector<Sample> chosen;
  for (Sample sample : samples) {
    if (sample.key.cmatch < 2) {
      sample.prediction = sample.key.cmatch == 0
          ? sample.prediction
          : 63.0F / 64 - sample.prediction;
      chosen.push_back(sample);
    }
  }
  EXPECT_DOUBLE_EQ(calculator.result().auc, auc_by_pairs(chosen));
}

UserAucResult user_auc_by_pairs(const std::vector<Sample>& samples) {
  std::map<std::int64_t, std::vector<Sample>> of_user;
  for (const Sample& sample : samples) {
    of_user[sample.user].push_back(sample);
  }
  UserAucResult result;
  for (const auto& [user, own] : of_user) {
    double positive = 0;
    for (const Sample& sample : own) {
      positive += sample.label;
    }
    if (positive > 0 && positive < static_cast<double>(own.size())) {
      ++result.num_users;
      result.num_samples += static_cast<std::int64_t>(own.size());
      result.uauc += auc_by_pairs(own);
      result.wuauc += auc_by_pairs(own) * static_cast<double>(own.size());
    }
  }
  result.uauc /= static_cast<double>(result.num_users);
  result.wuauc /= static_cast<double>(result.num_samples);
  return result;
}

void expect_equal(const UserAucResult& is, const UserAucResult& expected) {
  EXPECT_NEAR(is.uauc, expected.uauc, 1e-12);
  EXPECT_NEAR(is.wuauc, expected.wuauc, 1e-12);
  EXPECT_EQ(is.num_users, expected.num_users);
  EXPECT_EQ(is.num_samples, expected.num_samples);
}

TEST(UserAuc, IsTheMeanOverUsers) {
  auto samples = some_samples(40, 7);
  samples.push_back({.user = 99, .prediction = 0.5, .label = 1, .key = {}});
  const Columns columns(samples);
  UserAucCalculator calculator;
  calculator.add(columns.users, columns.predictions, columns.labels);
  expect_equal(calculator.result(), user_auc_by_pairs(samples));
}

class Workers : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Auc, Workers, ::testing::Values(1, 2, 3));

// Worker r has 100 * r samples, those of a user on several workers.
TEST_P(Workers, TogetherHaveTheResultOfAllSamples) {
  std::vector<Sample> all;
  for (int rank = 0; rank < GetParam(); ++rank) {
    const auto own =
        some_samples(100 * rank, 10U + static_cast<unsigned>(rank));
    all.insert(all.end(), own.begin(), own.end());
  }
  run_ranks(GetParam(), [&](World& world) {
    const auto own = some_samples(
        100 * world.rank(), 10U + static_cast<unsigned>(world.rank()));
    const Columns columns(own);
    AucCalculator auc_of({.num_buckets = 64});
    UserAucCalculator user_auc_of;
    if (!own.empty()) {
      auc_of.add(columns.predictions, columns.labels);
      user_auc_of.add(columns.users, columns.predictions, columns.labels);
    }
    for (int twice = 0; twice < 2; ++twice) {
      const AucResult result = auc_of.result(get_group());
      EXPECT_DOUBLE_EQ(result.auc, auc_by_pairs(all));
      EXPECT_EQ(result.count, static_cast<std::int64_t>(all.size()));
      if (!all.empty()) {
        expect_equal(user_auc_of.result(get_group()), user_auc_by_pairs(all));
      } else {
        EXPECT_EQ(user_auc_of.result(get_group()).num_users, 0);
      }
    }
  });
}

TEST_P(Workers, SumMaxMinAndMeans) {
  run_ranks(GetParam(), [](World& world) {
    const auto rank = static_cast<double>(world.rank());
    const auto size = static_cast<double>(world.size());
    const at::Tensor own = torch::tensor({rank, -rank});
    const double total = size * (size - 1) / 2;
    EXPECT_TRUE(
        torch::equal(metrics::sum(own), torch::tensor({total, -total})));
    EXPECT_TRUE(
        torch::equal(metrics::max(own), torch::tensor({size - 1, -0.0})));
    EXPECT_TRUE(
        torch::equal(metrics::min(own), torch::tensor({0.0, 1 - size})));
    EXPECT_TRUE(torch::equal(own, torch::tensor({rank, -rank})));
    EXPECT_DOUBLE_EQ(mae(3 * (rank + 1), 2 * (rank + 1)), 1.5);
    EXPECT_DOUBLE_EQ(mse(8, 2), 4);
    EXPECT_DOUBLE_EQ(rmse(8, 2), 2);
    EXPECT_DOUBLE_EQ(acc(1, 4), 0.25);
    EXPECT_DOUBLE_EQ(acc(0, 0), 0);
    // Two buckets: a positive sample above a negative one, and one beside.
    EXPECT_DOUBLE_EQ(auc(torch::tensor({1, 1}), torch::tensor({1, 0})), 0.75);
    EXPECT_DOUBLE_EQ(auc(torch::tensor({1, 1}), torch::tensor({0, 0})), 0.5);
  });
}

TEST(Auc, RefusesWhatCannotBe) {
  AucCalculator calculator;
  const auto refused = [&](const at::Tensor& predictions,
                           const at::Tensor& labels) {
    return refusal([&] { calculator.add(predictions, labels); });
  };
  EXPECT_THAT(
      refused(torch::tensor({0.5F, 1.5F}), torch::ones({2})),
      HasSubstr("prediction 1 is 1.5, expected 0 to 1"));
  EXPECT_THAT(
      refused(torch::full({1}, NAN), torch::ones({1})),
      HasSubstr("prediction 0 is nan"));
  EXPECT_THAT(
      refused(torch::tensor({0.5F}), torch::full({1}, 2)),
      HasSubstr("label 0 is 2, expected 0 or 1"));
  EXPECT_THAT(
      refused(torch::tensor({0.5F}), torch::ones({2})),
      HasSubstr("1 predictions for 2 labels"));
  EXPECT_EQ(calculator.result().count, 0);
  for (const char* const text : {"", "x", "1:2:3", "1:", ":1", "1,,2"}) {
    EXPECT_THAT(refusal([&] { Places places(text); }), HasSubstr("expected"))
        << text;
  }
  AucCalculator chosen({.places = Places("1")});
  EXPECT_THAT(
      refusal([&] { chosen.add(torch::ones({1}), torch::ones({1})); }),
      HasSubstr("expected their log keys"));
}

} // namespace
} // namespace argosy::metrics
