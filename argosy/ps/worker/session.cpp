#include "argosy/ps/worker/session.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_bag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/ps/client/geo_table.h"
#include "argosy/ps/client/row_cache.h"
#include "argosy/ps/worker/dense_parameters.h"
#include "argosy/ps/worker/unique_ids.h"

namespace argosy::ps {

namespace {

std::span<float> floats(const at::Tensor& tensor, std::size_t count) {
  return {tensor.data_ptr<float>(), count};
}

} // namespace

struct Session::Impl {
  // Ids of dense tables: this one, and then from the other on. Sparse ones
  // stand between.
  static constexpr std::uint32_t kFirstDense = 0;
  static constexpr std::uint32_t kSecondDense = 1'000'000;

  struct Table {
    SparseConfig config;
    CacheOptions cache_options{};
    std::size_t pull_dim = 0;
    std::unique_ptr<GeoTable> geo{};
    std::unique_ptr<RowCache> cache{};
  };
  // Rows that a graph uses.
  struct Lookup {
    std::uint32_t table = 0;
    UniqueIds ids{};
    at::Tensor rows{}; // a leaf; the last row is the padding id's
  };
  struct Prefetch {
    std::uint32_t table = 0;
    std::int64_t step = 0; // that the rows are of
    std::vector<std::uint64_t> keys{};
    std::vector<float> rows{};
    PendingPull pending{};
  };

  explicit Impl(const SessionOptions& options)
      : client(options.client),
        communicator(client, options.communicator),
        dense_pulls(options.dense_pulls) {
    // Checks the options.
    DenseParameters(client, communicator, dense_pulls, kFirstDense);
  }

  bool is_geo() const { return communicator.options().mode == Mode::Geo; }

  bool is_dense(std::uint32_t id) const {
    return std::any_of(dense.begin(), dense.end(), [&](const auto& each) {
      return each->table() == id;
    });
  }

  Table& table(std::uint32_t id) {
    const std::lock_guard lock(mutex);
    const auto found = tables.find(id);
    ARGOSY_CHECK(
        found != tables.end(), "[ps.lookup] table {} does not exist", id);
    return found->second;
  }

  at::Tensor rows_of(
      std::uint32_t id, Table& entry, const UniqueIds& unique, bool is_test);
  void fill(
      std::uint32_t id,
      Table& entry,
      const std::vector<std::uint64_t>& keys,
      std::span<float> rows,
      bool is_test);
  bool take_prefetched(
      std::uint32_t id,
      const std::vector<std::uint64_t>& keys,
      std::span<float> rows);
  void fill_with_cache(
      std::uint32_t id,
      Table& entry,
      const std::vector<std::uint64_t>& keys,
      std::span<float> rows);
  std::vector<float> records_of(const Lookup& lookup);
  Gradients take_gradients();
  void keep_rows(Table& entry);
  void step_geo(const Gradients& gradients);
  void exchange();
  void wait_for_step();

  Client client;
  Communicator communicator;
  const DensePulls dense_pulls;
  std::vector<std::unique_ptr<DenseParameters>> dense;
  mutable std::mutex mutex;
  // Guarded by mutex; entries of `tables` stay where they are.
  std::map<std::uint32_t, Table> tables;
  std::map<std::string, std::uint32_t> ids;
  std::map<std::thread::id, std::vector<Lookup>> lookups;
  std::list<Prefetch> prefetches;
  std::uint64_t num_prefetched = 0;
  std::int64_t steps = 0;
  int unexchanged = 0;   // geo: steps since the last exchange
  int geo_staleness = 0; // the most there were
};

Session::Session(SessionOptions options)
    : impl_(std::make_unique<Impl>(options)) {}

Session::~Session() = default;

Client& Session::client() {
  return impl_->client;
}

Communicator& Session::communicator() {
  return impl_->communicator;
}

std::uint32_t Session::add_table(
    SparseConfig config, const CacheOptions& cache) {
  Impl& impl = *impl_;
  {
    const std::lock_guard lock(impl.mutex);
    if (const auto found = impl.ids.find(config.name);
        found != impl.ids.end()) {
      return found->second;
    }
    config.table_id = static_cast<int>(impl.ids.size()) + 1;
  }
  ARGOSY_CHECK(
      cache.rows == 0 || impl.communicator.options().mode != Mode::Sync,
      "[ps.cache] a cache of table '{}' in sync mode, whose steps see the "
      "newest rows",
      config.name);
  const TableSpec spec{.sparse = config};
  impl.client.create_table(impl.is_geo() ? GeoTable::server_spec(spec) : spec);
  const auto id = static_cast<std::uint32_t>(config.table_id);
  Impl::Table entry{.config = config, .cache_options = cache};
  entry.pull_dim = static_cast<std::size_t>(impl.client.layout(id).pull_dim);
  impl.keep_rows(entry);
  const std::lock_guard lock(impl.mutex);
  impl.ids[config.name] = id;
  impl.tables.emplace(id, std::move(entry));
  return id;
}

// What a worker keeps of a table: nothing yet.
void Session::Impl::keep_rows(Table& entry) {
  if (is_geo()) {
    entry.geo = std::make_unique<GeoTable>(
        client,
        GeoTable::server_spec({.sparse = entry.config}),
        entry.config.embedx_rule);
  }
  if (entry.cache_options.rows > 0) {
    entry.cache = std::make_unique<RowCache>(
        entry.cache_options.rows, entry.cache_options.steps, entry.pull_dim);
  }
}

void Session::forget_rows() {
  const std::lock_guard lock(impl_->mutex);
  impl_->prefetches.clear();
  for (auto& [id, entry] : impl_->tables) {
    impl_->keep_rows(entry);
  }
}

bool Session::has_table(const std::string& name) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->ids.contains(name);
}

void Session::set_rows(std::uint32_t table, const at::Tensor& values) {
  constexpr std::int64_t kChunkFloats = 1 << 20;
  Client& client = impl_->client;
  if (client.options().worker == 0 && client.stat(table).rows == 0) {
    const at::Tensor all = values.to(at::kFloat).contiguous();
    const std::int64_t dim = all.size(1);
    const std::int64_t chunk = std::max<std::int64_t>(1, kChunkFloats / dim);
    const float* const data = all.data_ptr<float>();
    for (std::int64_t row = 0; row < all.size(0); row += chunk) {
      const auto count = std::min(chunk, all.size(0) - row);
      std::vector<std::uint64_t> keys(static_cast<std::size_t>(count));
      std::iota(keys.begin(), keys.end(), static_cast<std::uint64_t>(row));
      client.set_rows(
          table,
          keys,
          {data + row * dim, static_cast<std::size_t>(count * dim)});
    }
  }
  client.barrier("set_rows");
}

bool Session::Impl::take_prefetched(
    std::uint32_t id,
    const std::vector<std::uint64_t>& keys,
    std::span<float> rows) {
  std::list<Prefetch> found;
  {
    const std::lock_guard lock(mutex);
    const auto it = std::find_if(
        prefetches.begin(), prefetches.end(), [&](const Prefetch& prefetch) {
          return prefetch.table == id && prefetch.keys == keys &&
              (prefetch.step < 0 || prefetch.step == communicator.step());
        });
    if (it == prefetches.end()) {
      return false;
    }
    found.splice(found.begin(), prefetches, it);
    ++num_prefetched;
  }
  found.front().pending.wait();
  std::copy(found.front().rows.begin(), found.front().rows.end(), rows.begin());
  return true;
}

void Session::Impl::fill_with_cache(
    std::uint32_t id,
    Table& entry,
    const std::vector<std::uint64_t>& keys,
    std::span<float> rows) {
  const std::size_t dim = entry.pull_dim;
  std::vector<std::uint64_t> missing;
  std::vector<std::size_t> places;
  std::unique_lock lock(mutex);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!entry.cache->find(keys[i], steps, rows.subspan(i * dim, dim))) {
      missing.push_back(keys[i]);
      places.push_back(i);
    }
  }
  const std::int64_t now = steps;
  lock.unlock();
  std::vector<float> pulled(missing.size() * dim);
  client.pull({{id, missing, pulled}});
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

void Session::Impl::fill(
    std::uint32_t id,
    Table& entry,
    const std::vector<std::uint64_t>& keys,
    std::span<float> rows,
    bool is_test) {
  if (entry.geo) {
    entry.geo->pull(keys, rows);
  } else if (entry.cache) {
    fill_with_cache(id, entry, keys, rows);
  } else if (is_test || !take_prefetched(id, keys, rows)) {
    client.start_pull({{id, keys, rows}}, {}, communicator.step(), !is_test)
        .wait();
  }
}

at::Tensor Session::Impl::rows_of(
    std::uint32_t id, Table& entry, const UniqueIds& unique, bool is_test) {
  const std::vector<std::uint64_t>& keys = unique.keys;
  const auto count = static_cast<std::int64_t>(keys.size());
  const auto dim = static_cast<std::int64_t>(entry.pull_dim);
  at::Tensor rows = at::empty({count + 1, dim}, at::kFloat);
  rows[count].zero_();
  fill(id, entry, keys, floats(rows, keys.size() * entry.pull_dim), is_test);
  if (!is_test && at::GradMode::is_enabled()) {
    rows.set_requires_grad(true);
    const std::lock_guard lock(mutex);
    lookups[std::this_thread::get_id()].push_back({id, unique, rows});
  }
  return rows;
}

at::Tensor Session::lookup(
    std::uint32_t table, const at::Tensor& ids, const LookupOptions& options) {
  Impl::Table& entry = impl_->table(table);
  const UniqueIds unique =
      unique_ids(ids, options.padding_idx, entry.config.name);
  const at::Tensor rows = impl_->rows_of(table, entry, unique, options.is_test);
  return at::embedding(
      rows, unique.positions, static_cast<std::int64_t>(unique.keys.size()));
}

at::Tensor Session::lookup_bag(
    std::uint32_t table,
    const at::Tensor& ids,
    const at::Tensor& offsets,
    const BagOptions& bag,
    const LookupOptions& options) {
  Impl::Table& entry = impl_->table(table);
  const UniqueIds unique =
      unique_ids(ids, options.padding_idx, entry.config.name);
  const at::Tensor rows = impl_->rows_of(table, entry, unique, options.is_test);
  return std::get<0>(at::embedding_bag(
      rows,
      unique.positions,
      offsets.to(at::kLong),
      false,
      bag.mode,
      false,
      {},
      bag.include_last_offset,
      static_cast<std::int64_t>(unique.keys.size())));
}

void Session::prefetch(std::uint32_t table, const at::Tensor& ids) {
  Impl& impl = *impl_;
  Impl::Table& entry = impl.table(table);
  if (entry.geo || entry.cache) {
    return; // rows are here, or will be asked for when they are too old
  }
  UniqueIds unique = unique_ids(ids, -1, entry.config.name);
  const std::int64_t step = impl.communicator.step();
  const std::lock_guard lock(impl.mutex);
  Impl::Prefetch& prefetch = impl.prefetches.emplace_back();
  prefetch.table = table;
  prefetch.step = step < 0 ? -1 : step + 1;
  prefetch.keys = std::move(unique.keys);
  prefetch.rows.resize(prefetch.keys.size() * entry.pull_dim);
  prefetch.pending = impl.client.start_pull(
      {{table, prefetch.keys, prefetch.rows}}, {}, prefetch.step);
}

// A record for each key: the gradient, behind slot, show and click if the table
// counts them. An id that stands in a batch twice was shown twice.
std::vector<float> Session::Impl::records_of(const Lookup& lookup) {
  const RowLayout layout = client.layout(lookup.table);
  const at::Tensor grad =
      lookup.rows.grad().to(at::kFloat).to_dense().contiguous();
  const auto pull_dim = static_cast<std::size_t>(layout.pull_dim);
  const auto push_dim = static_cast<std::size_t>(layout.push_dim);
  const auto first_pull = static_cast<std::size_t>(
      layout.pull_embed >= 0 ? layout.pull_embed : layout.pull_embedx);
  const auto first_push = static_cast<std::size_t>(
      layout.push_embed >= 0 ? layout.push_embed : layout.push_embedx);
  const float* from = grad.data_ptr<float>();
  std::vector<float> records(lookup.ids.keys.size() * push_dim);
  for (std::size_t i = 0; i < lookup.ids.keys.size(); ++i) {
    float* to = records.data() + i * push_dim;
    if (layout.has_ctr()) {
      to[layout.push_show] = lookup.ids.counts[i];
    }
    std::copy(
        from + i * pull_dim + first_pull,
        from + (i + 1) * pull_dim,
        to + first_push);
  }
  return records;
}

Gradients Session::Impl::take_gradients() {
  std::vector<Lookup> own;
  {
    const std::lock_guard lock(mutex);
    own = std::move(lookups[std::this_thread::get_id()]);
    lookups.erase(std::this_thread::get_id());
  }
  Gradients gradients;
  for (const Lookup& lookup : own) {
    if (lookup.rows.grad().defined() && !lookup.ids.keys.empty()) {
      Gradients one;
      one.sparse.push_back({lookup.table, lookup.ids.keys, records_of(lookup)});
      merge(gradients, one, client);
    }
  }
  return gradients;
}

std::uint32_t Session::add_dense(
    std::vector<at::Tensor> parameters, DenseConfig config) {
  auto& dense = impl_->dense;
  const auto index = static_cast<std::uint32_t>(dense.size());
  const std::uint32_t id =
      index == 0 ? Impl::kFirstDense : Impl::kSecondDense + index - 1;
  auto added = std::make_unique<DenseParameters>(
      impl_->client, impl_->communicator, impl_->dense_pulls, id);
  added->add(std::move(parameters), std::move(config));
  dense.push_back(std::move(added));
  return id;
}

void Session::pull_dense() {
  for (const auto& each : impl_->dense) {
    each->pull();
  }
}

// Until every region has applied the steps so far: asks each for a row.
void Session::Impl::wait_for_step() {
  if (communicator.step() < 0 || tables.empty()) {
    return; // dense values were pulled after the step
  }
  const auto& [id, entry] = *tables.begin();
  std::vector<std::uint64_t> keys(
      static_cast<std::size_t>(entry.config.shard_num));
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> rows(keys.size() * entry.pull_dim);
  client.start_pull({{id, keys, rows}}, {}, communicator.step(), false).wait();
}

void Session::set_learning_rate(std::uint32_t table, float rate) {
  Impl& impl = *impl_;
  if (impl.is_dense(table)) {
    if (!impl.is_geo() && impl.client.options().worker == 0) {
      impl.wait_for_step();
      impl.client.set_learning_rate(table, rate);
    }
    return;
  }
  Impl::Table& entry = impl.table(table);
  if (entry.geo) {
    entry.config.embedx_rule.learning_rate = rate;
    entry.geo->set_learning_rate(rate);
  } else if (impl.client.options().worker == 0) {
    impl.wait_for_step();
    impl.client.set_learning_rate(table, rate);
  }
}

void Session::Impl::step_geo(const Gradients& gradients) {
  for (const Gradients::Sparse& sparse : gradients.sparse) {
    table(sparse.table).geo->push(sparse.keys, sparse.records);
  }
  geo_staleness = std::max(geo_staleness, ++unexchanged);
  if (unexchanged == communicator.options().k_steps) {
    exchange();
  }
}

void Session::Impl::exchange() {
  for (auto& [id, entry] : tables) {
    entry.geo->exchange();
  }
  for (const auto& each : dense) {
    each->exchange();
  }
  unexchanged = 0;
}

void Session::step() {
  Impl& impl = *impl_;
  Gradients gradients = impl.take_gradients();
  if (impl.is_geo()) {
    impl.step_geo(gradients);
  } else {
    for (const auto& each : impl.dense) {
      each->add_gradients(gradients);
    }
    impl.communicator.push(std::move(gradients));
    for (const auto& each : impl.dense) {
      each->receive();
      each->zero_gradients();
    }
  }
  const std::lock_guard lock(impl.mutex);
  ++impl.steps;
}

void Session::flush() {
  if (impl_->is_geo()) {
    impl_->exchange();
  }
  impl_->communicator.flush();
}

int Session::max_staleness() const {
  return impl_->is_geo() ? impl_->geo_staleness
                         : impl_->communicator.max_staleness();
}

std::uint64_t Session::num_prefetched() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->num_prefetched;
}

std::uint64_t Session::num_cache_hits(std::uint32_t table) const {
  const Impl::Table& entry = impl_->table(table);
  const std::lock_guard lock(impl_->mutex);
  return entry.cache ? entry.cache->hits() : 0;
}

std::int64_t Session::oldest_cache_hit(std::uint32_t table) const {
  const Impl::Table& entry = impl_->table(table);
  const std::lock_guard lock(impl_->mutex);
  return entry.cache ? entry.cache->oldest_hit() : 0;
}

} // namespace argosy::ps
