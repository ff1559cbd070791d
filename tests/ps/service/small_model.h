#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "argosy/ps/client/client.h"
#include "argosy/ps/table/sparse_table.h"

// A model for tests of the parameter server, and the same without servers.
namespace argosy::ps {

inline constexpr std::uint32_t kTable = 1;

inline TableSpec embedding(int dim, Rule rule = Rule::Naive) {
  SparseConfig config = embedding_config(dim, {.rule = rule});
  config.table_id = kTable;
  config.name = "items";
  config.unknown_key = UnknownKey::InitialValues;
  return {.sparse = config};
}

inline std::vector<float> pull_all(
    Client& client, std::span<const std::uint64_t> keys, std::int64_t step) {
  std::vector<float> rows(
      keys.size() * static_cast<std::size_t>(client.layout(kTable).pull_dim));
  client.pull({{kTable, keys, rows}}, {}, step);
  return rows;
}

// A small model: every worker's gradient depends on the rows that it pulls.
struct Training {
  int num_workers = 1;
  int num_steps = 1;
  int dim = 3;
};

inline std::vector<std::uint64_t> keys_of(int worker, int step) {
  std::mt19937 random(static_cast<unsigned>(worker * 1000 + step));
  std::vector<std::uint64_t> keys(1 + random() % 20);
  for (std::uint64_t& key : keys) {
    key = random() % 50;
  }
  return keys;
}

inline std::vector<float> gradient_of(
    const std::vector<float>& rows, int worker, int step) {
  std::vector<float> gradient(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    gradient[i] = rows[i] * 0.5f +
        0.01f * static_cast<float>((worker + 1) * (step % 7) + int(i % 5));
  }
  return gradient;
}

inline void train(
    Client& client, const Training& run, int worker, std::int64_t from) {
  for (auto step = from; step < run.num_steps; ++step) {
    const auto keys = keys_of(worker, static_cast<int>(step));
    const auto rows = pull_all(client, keys, step);
    const auto gradient = gradient_of(rows, worker, static_cast<int>(step));
    client.push({{kTable, keys, gradient}}, {}, step);
  }
}

inline std::vector<std::uint64_t> all_keys() {
  std::vector<std::uint64_t> keys(50);
  for (std::size_t i = 0; i < 50; ++i) {
    keys[i] = i;
  }
  return keys;
}

// The same in one process, without servers: one table, workers one after the
// other, gradients added in their order.
inline std::vector<float> train_alone(
    const Training& run, const TableSpec& spec) {
  SparseTable table(spec.sparse);
  const auto dim = static_cast<std::size_t>(run.dim);
  for (int step = 0; step < run.num_steps; ++step) {
    std::map<std::uint64_t, std::vector<float>> sums;
    for (int worker = 0; worker < run.num_workers; ++worker) {
      const auto keys = keys_of(worker, step);
      std::vector<float> rows(keys.size() * dim);
      table.pull(keys, rows);
      const auto gradient = gradient_of(rows, worker, step);
      std::map<std::uint64_t, std::vector<float>> own;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        own[keys[i]].resize(dim, 0.0f);
        for (std::size_t d = 0; d < dim; ++d) {
          own[keys[i]][d] += gradient[i * dim + d];
        }
      }
      for (const auto& [key, row] : own) {
        sums[key].resize(dim, 0.0f);
        for (std::size_t d = 0; d < dim; ++d) {
          sums[key][d] += row[d];
        }
      }
    }
    for (auto& [key, row] : sums) {
      for (float& value : row) {
        value /= static_cast<float>(run.num_workers);
      }
      table.push({&key, 1}, row);
    }
  }
  const auto keys = all_keys();
  std::vector<float> rows(keys.size() * dim);
  table.pull(keys, rows);
  return rows;
}

inline void expect_same_bits(
    const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

} // namespace argosy::ps
