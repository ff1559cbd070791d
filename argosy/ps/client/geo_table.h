#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "argosy/ps/client/client.h"
#include "argosy/ps/table/sparse_table.h"

namespace argosy::ps {

// A worker's own copy of a table in geo mode. The worker trains on it; the
// server's table adds up differences (its rule is Sum). An exchange sends
//   delta = (local - old) / workers, old += delta
// and takes what others changed:
//   local += server - old, old = server.
// Accessor Embedding only. One thread at a time.
class GeoTable {
 public:
  // `rule` is how the worker trains. `spec` is that of the server's table.
  GeoTable(Client& client, const TableSpec& spec, const RuleConfig& rule);

  // The server's table for a table that workers would train with `config`.
  static TableSpec server_spec(TableSpec spec);

  // Rows of keys, which may repeat; those that are new here come from servers.
  void pull(std::span<const std::uint64_t> keys, std::span<float> rows);
  // Trains. Keys do not repeat and were pulled before.
  void push(
      std::span<const std::uint64_t> keys, std::span<const float> gradients);

  void set_learning_rate(float rate) { trained_.set_learning_rate(rate); }

  // Sends differences and takes those of others.
  void exchange();

  std::size_t num_rows() const { return rows_.size(); }

 private:
  struct Row {
    std::vector<float> offset{}; // what others changed: local - trained_
    std::vector<float> old{};    // what we think that the server has
    bool touched = false;        // since the last exchange
  };

  void fetch(std::span<const std::uint64_t> keys);
  std::vector<float> local(std::uint64_t key, const Row& row);

  Client& client_;
  std::uint32_t table_;
  std::size_t dim_;
  SparseTable trained_; // as if this worker were alone
  std::unordered_map<std::uint64_t, Row> rows_;
  std::vector<std::uint64_t> touched_; // in order
};

} // namespace argosy::ps
