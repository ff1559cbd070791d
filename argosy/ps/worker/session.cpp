#include "argosy/ps/worker/session.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_bag.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "argosy/ps/worker/dense_parameters.h"
#include "argosy/ps/worker/lookup_tape.h"
#include "argosy/ps/worker/unique_ids.h"

namespace argosy::ps {

struct Session::Impl {
  // Ids of dense tables: this one, and then from the other on. Sparse ones
  // stand between.
  static constexpr std::uint32_t kFirstDense = 0;
  static constexpr std::uint32_t kSecondDense = 1'000'000;

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

  at::Tensor rows_of(std::uint32_t id, const UniqueIds& unique, bool is_test);
  void step_geo(const Gradients& gradients);
  void exchange();

  Client client;
  Communicator communicator;
  const DensePulls dense_pulls;
  std::vector<std::unique_ptr<DenseParameters>> dense;
  RowSource rows{client, communicator};
  LookupTape tape;
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
  return impl_->rows.add_table(std::move(config), cache);
}

bool Session::has_table(const std::string& name) const {
  return impl_->rows.has_table(name);
}

void Session::forget_rows() {
  impl_->rows.forget();
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

// The rows of keys, and zeros behind them for the padding id.
at::Tensor Session::Impl::rows_of(
    std::uint32_t id, const UniqueIds& unique, bool is_test) {
  const auto count = static_cast<std::int64_t>(unique.keys.size());
  const std::int64_t dim = client.layout(id).pull_dim;
  at::Tensor values = at::empty({count + 1, dim}, at::kFloat);
  values[count].zero_();
  rows.fill(
      id,
      unique.keys,
      {values.data_ptr<float>(), static_cast<std::size_t>(count * dim)},
      is_test);
  if (!is_test && at::GradMode::is_enabled()) {
    values.set_requires_grad(true);
    tape.add(id, unique, values);
  }
  return values;
}

at::Tensor Session::lookup(
    std::uint32_t table, const at::Tensor& ids, const LookupOptions& options) {
  const UniqueIds unique =
      unique_ids(ids, options.padding_idx, impl_->rows.name_of(table));
  const at::Tensor rows = impl_->rows_of(table, unique, options.is_test);
  return at::embedding(
      rows, unique.positions, static_cast<std::int64_t>(unique.keys.size()));
}

at::Tensor Session::lookup_bag(
    std::uint32_t table,
    const at::Tensor& ids,
    const at::Tensor& offsets,
    const BagOptions& bag,
    const LookupOptions& options) {
  const UniqueIds unique =
      unique_ids(ids, options.padding_idx, impl_->rows.name_of(table));
  const at::Tensor rows = impl_->rows_of(table, unique, options.is_test);
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
  RowSource& rows = impl_->rows;
  rows.prefetch(table, unique_ids(ids, -1, rows.name_of(table)).keys);
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

void Session::set_learning_rate(std::uint32_t table, float rate) {
  Impl& impl = *impl_;
  const bool is_local = impl.is_dense(table)
      ? impl.is_geo()
      : impl.rows.set_local_rate(table, rate);
  if (!is_local && impl.client.options().worker == 0) {
    impl.rows.wait_for_step();
    impl.client.set_learning_rate(table, rate);
  }
}

void Session::Impl::step_geo(const Gradients& gradients) {
  for (const Gradients::Sparse& sparse : gradients.sparse) {
    rows.push_local(sparse.table, sparse.keys, sparse.records);
  }
  geo_staleness = std::max(geo_staleness, ++unexchanged);
  if (unexchanged == communicator.options().k_steps) {
    exchange();
  }
}

void Session::Impl::exchange() {
  rows.exchange();
  for (const auto& each : dense) {
    each->exchange();
  }
  unexchanged = 0;
}

void Session::step() {
  Impl& impl = *impl_;
  Gradients gradients = impl.tape.take(impl.client);
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
  impl.rows.end_step();
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
  return impl_->rows.num_prefetched();
}

std::uint64_t Session::num_cache_hits(std::uint32_t table) const {
  return impl_->rows.num_cache_hits(table);
}

std::int64_t Session::oldest_cache_hit(std::uint32_t table) const {
  return impl_->rows.oldest_cache_hit(table);
}

} // namespace argosy::ps
