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
#include <optional>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/ps/client/geo_table.h"
#include "argosy/ps/client/row_cache.h"
#include "argosy/ps/worker/unique_ids.h"

namespace argosy::ps {

namespace {

constexpr std::uint32_t kDenseTable = 0;

std::span<float> floats(const at::Tensor& tensor, std::size_t count) {
  return {tensor.data_ptr<float>(), count};
}

} // namespace

struct Session::Impl {
  struct Table {
    SparseConfig config;
    std::size_t pull_dim = 0;
    std::unique_ptr<GeoTable> geo{};
    std::unique_ptr<RowCache> cache{};
  };
  // Rows that a graph uses.
  struct Lookup {
    std::uint32_t table = 0;
    std::vector<std::uint64_t> keys{};
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
      : client(options.client), communicator(client, options.communicator) {}

  bool is_geo() const { return communicator.options().mode == Mode::Geo; }

  Table& table(std::uint32_t id) {
    const std::lock_guard lock(mutex);
    const auto found = tables.find(id);
    ARGOSY_CHECK(
        found != tables.end(), "[ps.lookup] table {} does not exist", id);
    return found->second;
  }

  at::Tensor rows_of(
      std::uint32_t id,
      Table& entry,
      const std::vector<std::uint64_t>& keys,
      bool is_test);
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
  std::vector<float> dense_values(bool gradients) const;
  void set_dense_values(std::span<const float> values);
  void step_geo(const Gradients& gradients);
  void exchange_dense();

  Client client;
  Communicator communicator;
  mutable std::mutex mutex;
  // Guarded by mutex; entries of `tables` stay where they are.
  std::map<std::uint32_t, Table> tables;
  std::map<std::string, std::uint32_t> ids;
  std::map<std::thread::id, std::vector<Lookup>> lookups;
  std::list<Prefetch> prefetches;
  std::uint64_t num_prefetched = 0;
  std::int64_t steps = 0;
  std::vector<at::Tensor> dense;
  std::size_t dense_size = 0;
  std::vector<float> dense_old; // geo: what the servers have, as we think
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
  TableSpec spec{.sparse = config};
  Impl::Table entry{.config = config};
  if (impl.is_geo()) {
    spec = GeoTable::server_spec(spec);
    entry.geo =
        std::make_unique<GeoTable>(impl.client, spec, config.embedx_rule);
  }
  impl.client.create_table(spec);
  const auto id = static_cast<std::uint32_t>(config.table_id);
  entry.pull_dim = static_cast<std::size_t>(impl.client.layout(id).pull_dim);
  if (cache.rows > 0) {
    ARGOSY_CHECK(
        impl.communicator.options().mode != Mode::Sync,
        "[ps.cache] a cache of table '{}' in sync mode, whose steps see the "
        "newest rows",
        config.name);
    entry.cache =
        std::make_unique<RowCache>(cache.rows, cache.steps, entry.pull_dim);
  }
  const std::lock_guard lock(impl.mutex);
  impl.ids[config.name] = id;
  impl.tables.emplace(id, std::move(entry));
  return id;
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
    std::uint32_t id,
    Table& entry,
    const std::vector<std::uint64_t>& keys,
    bool is_test) {
  const auto count = static_cast<std::int64_t>(keys.size());
  const auto dim = static_cast<std::int64_t>(entry.pull_dim);
  at::Tensor rows = at::empty({count + 1, dim}, at::kFloat);
  rows[count].zero_();
  fill(id, entry, keys, floats(rows, keys.size() * entry.pull_dim), is_test);
  if (!is_test && at::GradMode::is_enabled()) {
    rows.set_requires_grad(true);
    const std::lock_guard lock(mutex);
    lookups[std::this_thread::get_id()].push_back({id, keys, rows});
  }
  return rows;
}

at::Tensor Session::lookup(
    std::uint32_t table, const at::Tensor& ids, const LookupOptions& options) {
  Impl::Table& entry = impl_->table(table);
  const UniqueIds unique =
      unique_ids(ids, options.padding_idx, entry.config.name);
  const at::Tensor rows =
      impl_->rows_of(table, entry, unique.keys, options.is_test);
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
  const at::Tensor rows =
      impl_->rows_of(table, entry, unique.keys, options.is_test);
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
// counts them.
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
  std::vector<float> records(lookup.keys.size() * push_dim);
  for (std::size_t i = 0; i < lookup.keys.size(); ++i) {
    float* to = records.data() + i * push_dim;
    if (layout.has_ctr()) {
      to[layout.push_show] = 1;
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
    if (lookup.rows.grad().defined() && !lookup.keys.empty()) {
      Gradients one;
      one.sparse.push_back({lookup.table, lookup.keys, records_of(lookup)});
      merge(gradients, one, client);
    }
  }
  return gradients;
}

std::vector<float> Session::Impl::dense_values(bool gradients) const {
  std::vector<float> values;
  values.reserve(dense_size);
  for (const at::Tensor& parameter : dense) {
    const at::Tensor tensor = gradients ? parameter.grad() : parameter.detach();
    if (!tensor.defined()) {
      values.resize(
          values.size() + static_cast<std::size_t>(parameter.numel()), 0.0f);
      continue;
    }
    const at::Tensor flat = tensor.contiguous();
    const float* data = flat.data_ptr<float>();
    values.insert(values.end(), data, data + flat.numel());
  }
  return values;
}

void Session::Impl::set_dense_values(std::span<const float> values) {
  const at::NoGradGuard no_grad;
  const float* next = values.data();
  for (const at::Tensor& parameter : dense) {
    const at::Tensor flat = at::empty(parameter.sizes(), at::kFloat);
    std::copy(next, next + flat.numel(), flat.data_ptr<float>());
    parameter.copy_(flat);
    next += flat.numel();
  }
}

void Session::add_dense(
    std::vector<at::Tensor> parameters, DenseConfig config) {
  Impl& impl = *impl_;
  ARGOSY_CHECK(
      impl.dense.empty(), "[ps.add_dense] dense parameters were added before");
  for (const at::Tensor& parameter : parameters) {
    ARGOSY_CHECK(
        parameter.scalar_type() == at::kFloat,
        "[ps.add_dense] a parameter of {}, expected Float",
        parameter.scalar_type());
    impl.dense_size += static_cast<std::size_t>(parameter.numel());
  }
  impl.dense = std::move(parameters);
  config.table_id = static_cast<int>(kDenseTable);
  if (impl.is_geo()) {
    config.rule = DenseRule::Sum;
  }
  impl.client.create_table(
      {.is_dense = true, .dense = config, .dense_size = impl.dense_size});
  const bool begins = impl.communicator.step() <= 0;
  if (impl.client.options().worker == 0 && begins) {
    impl.client.set_dense(kDenseTable, impl.dense_values(false));
  }
  if (begins) {
    impl.client.barrier("dense");
  }
  pull_dense();
}

void Session::pull_dense() {
  Impl& impl = *impl_;
  if (impl.dense.empty()) {
    return;
  }
  std::vector<float> values(impl.dense_size);
  impl.client.pull({}, {{kDenseTable, values}}, impl.communicator.step());
  impl.set_dense_values(values);
  impl.dense_old = std::move(values);
}

// delta = (local - old) / workers; local += server - old.
void Session::Impl::exchange_dense() {
  if (dense.empty()) {
    return;
  }
  std::vector<float> local = dense_values(false);
  const auto workers = static_cast<float>(client.options().job.num_workers);
  Gradients deltas;
  deltas.dense.push_back({kDenseTable, std::vector<float>(dense_size)});
  for (std::size_t i = 0; i < dense_size; ++i) {
    const float delta = (local[i] - dense_old[i]) / workers;
    deltas.dense[0].gradient[i] = delta;
    dense_old[i] += delta;
  }
  communicator.push(deltas);
  std::vector<float> theirs(dense_size);
  client.pull({}, {{kDenseTable, theirs}});
  for (std::size_t i = 0; i < dense_size; ++i) {
    local[i] += theirs[i] - dense_old[i];
  }
  set_dense_values(local);
  dense_old = std::move(theirs);
}

void Session::Impl::step_geo(const Gradients& gradients) {
  for (const Gradients::Sparse& sparse : gradients.sparse) {
    table(sparse.table).geo->push(sparse.keys, sparse.records);
  }
  if ((steps + 1) % communicator.options().k_steps == 0) {
    for (auto& [id, entry] : tables) {
      entry.geo->exchange();
    }
    exchange_dense();
  }
}

void Session::step() {
  Impl& impl = *impl_;
  Gradients gradients = impl.take_gradients();
  if (impl.is_geo()) {
    impl.step_geo(gradients);
  } else {
    if (!impl.dense.empty()) {
      gradients.dense.push_back({kDenseTable, impl.dense_values(true)});
    }
    impl.communicator.push(std::move(gradients));
    pull_dense();
    for (const at::Tensor& parameter : impl.dense) {
      if (parameter.grad().defined()) {
        parameter.mutable_grad().zero_();
      }
    }
  }
  const std::lock_guard lock(impl.mutex);
  ++impl.steps;
}

void Session::flush() {
  Impl& impl = *impl_;
  if (impl.is_geo()) {
    for (auto& [id, entry] : impl.tables) {
      entry.geo->exchange();
    }
    impl.exchange_dense();
  }
  impl.communicator.flush();
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

} // namespace argosy::ps
