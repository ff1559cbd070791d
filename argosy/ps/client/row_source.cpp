#include "argosy/ps/client/row_source.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::ps {

RowSource::Table& RowSource::table(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(id);
  ARGOSY_CHECK(
      found != tables_.end(), "[ps.lookup] table {} does not exist", id);
  return found->second;
}

std::uint32_t RowSource::add_table(
    SparseConfig config, const CacheOptions& cache) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = ids_.find(config.name); found != ids_.end()) {
      return found->second;
    }
    config.table_id = static_cast<int>(ids_.size()) + 1;
  }
  ARGOSY_CHECK(
      cache.rows == 0 || communicator_.options().mode != Mode::Sync,
      "[ps.cache] a cache of table '{}' in sync mode, whose steps see the "
      "newest rows",
      config.name);
  const TableSpec spec{.sparse = config};
  client_.create_table(is_geo() ? GeoTable::server_spec(spec) : spec);
  const auto id = static_cast<std::uint32_t>(config.table_id);
  Table entry{.config = config, .cache_options = cache};
  entry.pull_dim = static_cast<std::size_t>(client_.layout(id).pull_dim);
  keep_nothing(entry);
  const std::lock_guard lock(mutex_);
  ids_[config.name] = id;
  tables_.emplace(id, std::move(entry));
  return id;
}

bool RowSource::has_table(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return ids_.contains(name);
}

const std::string& RowSource::name_of(std::uint32_t id) {
  return table(id).config.name;
}

void RowSource::keep_nothing(Table& entry) {
  if (is_geo()) {
    entry.geo = std::make_unique<GeoTable>(
        client_,
        GeoTable::server_spec({.sparse = entry.config}),
        entry.config.embedx_rule);
  }
  if (entry.cache_options.rows > 0) {
    entry.cache = std::make_unique<RowCache>(
        entry.cache_options.rows, entry.cache_options.steps, entry.pull_dim);
  }
}

void RowSource::forget() {
  const std::lock_guard lock(mutex_);
  prefetches_.clear();
  for (auto& [id, entry] : tables_) {
    keep_nothing(entry);
  }
}

void RowSource::end_step() {
  const std::lock_guard lock(mutex_);
  ++steps_;
}

// ---- rows

bool RowSource::take_prefetched(
    std::uint32_t id,
    const std::vector<std::uint64_t>& keys,
    std::span<float> rows) {
  std::list<Prefetch> found;
  {
    const std::lock_guard lock(mutex_);
    const auto it = std::find_if(
        prefetches_.begin(), prefetches_.end(), [&](const Prefetch& prefetch) {
          return prefetch.table == id && prefetch.keys == keys &&
              (prefetch.step < 0 || prefetch.step == communicator_.step());
        });
    if (it == prefetches_.end()) {
      return false;
    }
    found.splice(found.begin(), prefetches_, it);
    ++num_prefetched_;
  }
  found.front().pending.wait();
  std::copy(found.front().rows.begin(), found.front().rows.end(), rows.begin());
  return true;
}

void RowSource::fill_with_cache(
    std::uint32_t id,
    Table& entry,
    const std::vector<std::uint64_t>& keys,
    std::span<float> rows) {
  const std::size_t dim = entry.pull_dim;
  std::vector<std::uint64_t> missing;
  std::vector<std::size_t> places;
  std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!entry.cache->find(keys[i], steps_, rows.subspan(i * dim, dim))) {
      missing.push_back(keys[i]);
      places.push_back(i);
    }
  }
  const std::int64_t now = steps_;
  lock.unlock();
  std::vector<float> pulled(missing.size() * dim);
  client_.pull({{id, missing, pulled}});
  lock.lock();
  for (std::size_t m = 0; m < missing.size(); ++m) {
    const auto row = std::span<const float>(pulled).subspan(m * dim, dim);
    std::copy(
        row.begin(),
        row.end(),
        rows.begin() + static_cast<std::ptrdiff_t>(places[m] * dim));
    entry.cache->put(missing[m], now, row);
  }
}

void RowSource::fill(
    std::uint32_t id,
    const std::vector<std::uint64_t>& keys,
    std::span<float> rows,
    bool is_test) {
  Table& entry = table(id);
  if (entry.geo) {
    entry.geo->pull(keys, rows);
  } else if (entry.cache) {
    fill_with_cache(id, entry, keys, rows);
  } else if (is_test || !take_prefetched(id, keys, rows)) {
    client_.start_pull({{id, keys, rows}}, {}, communicator_.step(), !is_test)
        .wait();
  }
}

void RowSource::prefetch(std::uint32_t id, std::vector<std::uint64_t> keys) {
  Table& entry = table(id);
  if (entry.geo || entry.cache) {
    return; // rows are here, or will be asked for when they are too old
  }
  const std::int64_t step = communicator_.step();
  const std::lock_guard lock(mutex_);
  Prefetch& prefetch = prefetches_.emplace_back();
  prefetch.table = id;
  prefetch.step = step < 0 ? -1 : step + 1;
  prefetch.keys = std::move(keys);
  prefetch.rows.resize(prefetch.keys.size() * entry.pull_dim);
  prefetch.pending = client_.start_pull(
      {{id, prefetch.keys, prefetch.rows}}, {}, prefetch.step);
}

void RowSource::wait_for_step() {
  if (communicator_.step() < 0 || tables_.empty()) {
    return; // dense values were pulled after the step
  }
  const auto& [id, entry] = *tables_.begin();
  std::vector<std::uint64_t> keys(
      static_cast<std::size_t>(entry.config.shard_num));
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> rows(keys.size() * entry.pull_dim);
  client_.start_pull({{id, keys, rows}}, {}, communicator_.step(), false)
      .wait();
}

// ---- geo

void RowSource::push_local(
    std::uint32_t id,
    std::span<const std::uint64_t> keys,
    std::span<const float> gradients) {
  table(id).geo->push(keys, gradients);
}

void RowSource::exchange() {
  for (auto& [id, entry] : tables_) {
    entry.geo->exchange();
  }
}

bool RowSource::set_local_rate(std::uint32_t id, float rate) {
  Table& entry = table(id);
  if (!entry.geo) {
    return false;
  }
  entry.config.embedx_rule.learning_rate = rate;
  entry.geo->set_learning_rate(rate);
  return true;
}

// ---- counts

std::uint64_t RowSource::num_prefetched() const {
  const std::lock_guard lock(mutex_);
  return num_prefetched_;
}

std::uint64_t RowSource::num_cache_hits(std::uint32_t id) {
  const Table& entry = table(id);
  const std::lock_guard lock(mutex_);
  return entry.cache ? entry.cache->hits() : 0;
}

std::int64_t RowSource::oldest_cache_hit(std::uint32_t id) {
  const Table& entry = table(id);
  const std::lock_guard lock(mutex_);
  return entry.cache ? entry.cache->oldest_hit() : 0;
}

} // namespace argosy::ps
