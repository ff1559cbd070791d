#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/ps/table/partition.h"

namespace argosy::ps::testing {

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(30));
}

using Keys = std::vector<std::uint64_t>;
using Floats = std::vector<float>;

inline std::size_t to_size(int value) {
  return static_cast<std::size_t>(value);
}

// Records for keys: slot 5, `show` shows, `click` clicks, gradients `g`; or g
// alone for accessor Embedding.
inline Floats records(
    const RowLayout& layout,
    std::size_t keys,
    float show,
    float click,
    float g) {
  Floats all;
  for (std::size_t i = 0; i < keys; ++i) {
    Floats record(to_size(layout.push_dim), g);
    if (layout.has_ctr()) {
      record[0] = 5;
      record[1] = show;
      record[2] = click;
    }
    all.insert(all.end(), record.begin(), record.end());
  }
  return all;
}

template <typename Table>
void push(
    Table& table, const Keys& keys, float show, float click = 0, float g = 1) {
  table.push(keys, records(table.layout(), keys.size(), show, click, g));
}

template <typename Table>
Floats pull(Table& table, const Keys& keys, bool create = true) {
  Floats values(keys.size() * to_size(table.layout().pull_dim), -1);
  table.pull(keys, values, create);
  return values;
}

inline Keys range(std::uint64_t first, std::uint64_t end) {
  Keys keys;
  for (std::uint64_t key = first; key < end; ++key) {
    keys.push_back(key);
  }
  return keys;
}

using RowMap = std::map<std::uint64_t, Floats>;

inline void add_rows(const RowBatch& batch, RowMap& rows) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto words = batch.row(i);
    rows[batch.keys[i]] = Floats(words.begin(), words.end());
  }
}

// All rows, as a checkpoint would have them.
inline RowMap rows_of(Partition& partition) {
  RowMap rows;
  RowBatch batch;
  partition.begin_snapshot(SaveMode::Checkpoint);
  while (partition.next_slice(1000, batch)) {
  }
  partition.commit_snapshot();
  add_rows(batch, rows);
  return rows;
}

inline Keys keys_of(const RowMap& rows) {
  Keys keys;
  for (const auto& [key, words] : rows) {
    keys.push_back(key);
  }
  return keys;
}

} // namespace argosy::ps::testing
