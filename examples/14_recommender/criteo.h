#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "data.h"

// Data in Criteo's format: a line has the label, 13 numbers and 26 categories
// in hexadecimal, separated by tabs; a field may be empty.

constexpr int kNumbers = 13;
constexpr int kFields = 26;

inline Batch parse_criteo(const std::vector<std::string>& lines) {
  const auto count = static_cast<std::int64_t>(lines.size());
  Batch batch{
      torch::empty({count}),
      torch::zeros({count, kNumbers}),
      torch::zeros({count, kFields}, torch::kLong)};
  auto labels = batch.labels.accessor<float, 1>();
  auto numbers = batch.numbers.accessor<float, 2>();
  auto categories = batch.categories.accessor<std::int64_t, 2>();
  for (std::int64_t i = 0; i < count; ++i) {
    std::istringstream line(lines[static_cast<std::size_t>(i)]);
    std::string field;
    std::getline(line, field, '\t');
    labels[i] = field == "1" ? 1.0f : 0.0f;
    for (int f = 0; f < kNumbers && std::getline(line, field, '\t'); ++f) {
      numbers[i][f] =
          field.empty() ? 0.0f : static_cast<float>(std::atof(field.c_str()));
    }
    for (int f = 0; f < kFields && std::getline(line, field, '\t'); ++f) {
      const auto value = field.empty()
          ? 0xffffffffull
          : std::strtoull(field.c_str(), nullptr, 16);
      categories[i][f] = id_of(f, value);
    }
  }
  return batch;
}

// Draws lines from a known truth: a factorization machine over all fields. So
// the best possible AUC is that of the true probabilities.
class Generator {
 public:
  explicit Generator(unsigned seed) : seed_(seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (double& weight : numbers_) {
      weight = 0.25 * normal(random);
    }
    for (auto& field : weights_) {
      for (double& weight : field) {
        weight = 0.5 * normal(random);
      }
    }
    for (auto& field : factors_) {
      for (auto& value : field) {
        for (double& factor : value) {
          factor = 0.08 * normal(random);
        }
      }
    }
  }

  struct Sample {
    std::string line;
    double logit = 0; // of the truth
  };

  // The sample of that number; the same on every worker.
  Sample sample(std::uint64_t number) const {
    std::mt19937_64 random(number * 1000003 + seed_);
    std::normal_distribution<double> normal;
    Sample result;
    result.logit = -1.0;
    std::string fields;
    char text[32];
    for (const double weight : numbers_) {
      std::snprintf(text, sizeof(text), "\t%.3f", normal(random));
      result.logit += weight * std::atof(text + 1);
      fields += text;
    }
    double sum[kRank] = {};
    double squares = 0;
    for (int f = 0; f < kFields; ++f) {
      const auto value = random() % kValues;
      result.logit += weights_[f][value];
      for (int k = 0; k < kRank; ++k) {
        const double factor = factors_[f][value][k];
        sum[k] += factor;
        squares += factor * factor;
      }
      std::snprintf(
          text,
          sizeof(text),
          "\t%08llx",
          static_cast<unsigned long long>(value * 2654435761u % 0xfffffffb));
      fields += text;
    }
    for (const double s : sum) {
      result.logit += 0.5 * s * s;
    }
    result.logit -= 0.5 * squares;
    const double uniform = std::uniform_real_distribution<>()(random);
    const bool click = uniform < 1 / (1 + std::exp(-result.logit));
    result.line = (click ? "1" : "0") + fields;
    return result;
  }

 private:
  static constexpr int kValues = 5; // of each field
  static constexpr int kRank = 2;

  unsigned seed_;
  double numbers_[kNumbers];
  double weights_[kFields][kValues];
  double factors_[kFields][kValues][kRank];
};

// What the best possible scores are the truth's for.
inline Data criteo_data(int worker, int workers) {
  constexpr int kTrainSamples = 80000;
  constexpr int kTestSamples = 10000;
  const Generator generator(7);
  std::vector<std::string> lines;
  for (int i = worker; i < kTrainSamples; i += workers) {
    lines.push_back(generator.sample(static_cast<std::uint64_t>(i)).line);
  }
  std::vector<std::string> tests;
  std::vector<double> logits;
  for (int i = 0; i < kTestSamples; ++i) {
    auto sample =
        generator.sample(static_cast<std::uint64_t>(kTrainSamples + i));
    tests.push_back(std::move(sample.line));
    logits.push_back(sample.logit);
  }
  return {
      parse_criteo(lines),
      parse_criteo(tests),
      torch::tensor(logits, torch::kDouble),
      "best possible"};
}
