#include "argosy/ps/client/geo_table.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

SparseConfig trained_config(const TableSpec& spec, const RuleConfig& rule) {
  ARGOSY_CHECK(
      spec.sparse.accessor == Accessor::Embedding,
      "[ps.geo] table '{}' has accessor {}, expected an Embedding",
      spec.name(),
      to_string(spec.sparse.accessor));
  SparseConfig config = spec.sparse;
  const float range = config.embedx_rule.initial_range;
  config.embedx_rule = rule;
  config.embedx_rule.initial_range = range;
  config.unknown_key = UnknownKey::InitialValues;
  return config;
}

} // namespace

TableSpec GeoTable::server_spec(TableSpec spec) {
  spec.sparse.embedx_rule.rule = Rule::Sum;
  return spec;
}

GeoTable::GeoTable(
    Client& client, const TableSpec& spec, const RuleConfig& rule)
    : client_(client),
      table_(static_cast<std::uint32_t>(spec.id())),
      dim_(static_cast<std::size_t>(spec.sparse.embedx_dim)),
      trained_(trained_config(spec, rule)) {}

std::vector<float> GeoTable::local(std::uint64_t key, const Row& row) {
  std::vector<float> values(dim_);
  trained_.pull({&key, 1}, values);
  for (std::size_t d = 0; d < dim_; ++d) {
    values[d] += row.offset[d];
  }
  return values;
}

void GeoTable::fetch(std::span<const std::uint64_t> keys) {
  std::vector<std::uint64_t> missing;
  for (const std::uint64_t key : keys) {
    if (rows_.try_emplace(key).second) {
      missing.push_back(key);
    }
  }
  if (missing.empty()) {
    return;
  }
  std::vector<float> theirs(missing.size() * dim_);
  client_.pull({{table_, missing, theirs}});
  std::vector<float> initial(missing.size() * dim_);
  trained_.pull(missing, initial);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    Row& row = rows_[missing[i]];
    row.old.assign(&theirs[i * dim_], &theirs[i * dim_] + dim_);
    row.offset.resize(dim_);
    for (std::size_t d = 0; d < dim_; ++d) {
      row.offset[d] = row.old[d] - initial[i * dim_ + d];
    }
  }
}

void GeoTable::pull(
    std::span<const std::uint64_t> keys, std::span<float> rows) {
  fetch(keys);
  trained_.pull(keys, rows);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Row& row = rows_[keys[i]];
    for (std::size_t d = 0; d < dim_; ++d) {
      rows[i * dim_ + d] += row.offset[d];
    }
  }
}

void GeoTable::push(
    std::span<const std::uint64_t> keys, std::span<const float> gradients) {
  fetch(keys);
  trained_.push(keys, gradients);
  for (const std::uint64_t key : keys) {
    Row& row = rows_[key];
    if (!row.touched) {
      row.touched = true;
      touched_.push_back(key);
    }
  }
}

void GeoTable::exchange() {
  const auto workers = static_cast<float>(client_.options().job.num_workers);
  std::vector<float> deltas;
  for (const std::uint64_t key : touched_) {
    Row& row = rows_[key];
    row.touched = false;
    const std::vector<float> now = local(key, row);
    for (std::size_t d = 0; d < dim_; ++d) {
      const float delta = (now[d] - row.old[d]) / workers;
      row.old[d] += delta;
      deltas.push_back(delta);
    }
  }
  client_.push({{table_, touched_, deltas}});
  client_.flush();
  touched_.clear();
  const Client::Rows changed = client_.take_changed(table_);
  for (std::size_t i = 0; i < changed.keys.size(); ++i) {
    const auto found = rows_.find(changed.keys[i]);
    if (found == rows_.end()) {
      continue; // comes when it is pulled
    }
    Row& row = found->second;
    for (std::size_t d = 0; d < dim_; ++d) {
      const float theirs = changed.values[i * dim_ + d];
      row.offset[d] += theirs - row.old[d];
      row.old[d] = theirs;
    }
  }
}

} // namespace argosy::ps
