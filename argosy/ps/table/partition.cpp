#include "argosy/ps/table/partition.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "argosy/common/error.h"
#include "argosy/ps/table/partition_impl.h"

namespace argosy::ps {

namespace {

std::string disk_folder(const SparseConfig& config, int index) {
  return str(
      config.ssd.folder, "/table-", config.table_id, "-partition-", index);
}

[[noreturn]] void refuse_record(
    const SparseConfig& config,
    std::span<const std::uint64_t> keys,
    std::span<const float> records) {
  const auto bad = std::find_if(records.begin(), records.end(), [](float v) {
    return !std::isfinite(v);
  });
  const auto at = static_cast<std::size_t>(bad - records.begin());
  const std::size_t dim = records.size() / keys.size();
  throw InvalidArgument(
      str("[ps.push] table '",
          config.name,
          "': value ",
          at % dim,
          " of the record for key ",
          keys[at / dim],
          " is ",
          *bad,
          ", expected a finite number (refuse_non_finite)"));
}

} // namespace

PartitionStat& PartitionStat::operator+=(const PartitionStat& other) {
  rows += other.rows;
  full_rows += other.full_rows;
  disk_rows += other.disk_rows;
  pending += other.pending;
  memory_bytes += other.memory_bytes;
  disk_reads += other.disk_reads;
  disk_hits += other.disk_hits;
  lookups += other.lookups;
  return *this;
}

Partition::Impl::Impl(const SparseConfig& config, int index)
    : rules(config), store(rules.layout()) {
  if (config.on_ssd) {
    const auto parts = static_cast<std::size_t>(config.num_partitions);
    disk = std::make_unique<DiskRows>(
        disk_folder(config, index),
        DiskRows::Memory{
            config.ssd.block_cache_bytes / parts,
            config.ssd.write_buffer_bytes / parts});
    memory_limit = config.ssd.max_rows_in_memory / parts;
  }
}

// ---- Rows come, change and go -----------------------------------------------

void Partition::Impl::copy_for_snapshot(RowRef row) {
  const std::span<const float> from = words(row);
  const std::span<float> to =
      snapshot->changed.add(store.key(row), from.size());
  std::copy(from.begin(), from.end(), to.begin());
  snapshot->round.walk.skip(row);
}

void Partition::Impl::before_leave(RowRef row) {
  before_change(row);
  if (shrinking && shrinking->walk.ahead(row)) {
    rules.shrink(row.kind(), store.words(row), day);
  }
}

void Partition::Impl::after_insert(RowRef row) {
  if (snapshot) {
    snapshot->round.walk.skip(row);
  }
  if (shrinking) {
    shrinking->walk.skip(row);
  }
  if (demoting) {
    demoting->walk.skip(row);
  }
}

RowRef Partition::Impl::insert(std::uint64_t key, RowKind kind) {
  const RowRef row = store.insert(key, kind);
  after_insert(row);
  return row;
}

RowRef Partition::Impl::change_kind(RowRef row, RowKind kind) {
  before_leave(row);
  const RowRef moved = store.change_kind(row, kind);
  after_insert(moved);
  return moved;
}

void Partition::Impl::erase(RowRef row) {
  before_leave(row);
  store.erase(row);
}

RowRef Partition::Impl::create(std::uint64_t key, RowRef pending) {
  const RowRef row = pending.exists() ? change_kind(pending, rules.first_kind())
                                      : insert(key, rules.first_kind());
  rules.create(key, day, store.words(row));
  return row;
}

// ---- Pull and push ----------------------------------------------------------

void Partition::Impl::pull_one(
    std::uint64_t key,
    RowRef row,
    const float* from,
    float* out,
    bool create_unknown) {
  if (!row.exists() || row.kind() == RowKind::Pending) {
    if (!create_unknown || !rules.admits_all()) {
      rules.select_unknown(key, out);
      return;
    }
    row = create(key, row);
    from = store.words(row);
  }
  rules.select(row.kind(), from, out);
  mark_recent(row);
}

// The row of a key that has none; none if the key is not admitted.
RowRef Partition::Impl::admit(
    std::uint64_t key, RowRef pending, std::span<const float> record) {
  const bool known = pending.exists();
  const double seen =
      rules.seen(record.data()) + (known ? store.words(pending)[0] : 0.0);
  if (rules.admits(key, record, seen)) {
    return create(key, pending);
  }
  if (rules.config().entry.kind == Entry::Kind::CountFilter) {
    if (known) {
      before_change(pending);
    } else {
      pending = insert(key, RowKind::Pending);
    }
    std::fill_n(store.words(pending), rules.words(RowKind::Pending), 0.0f);
    store.words(pending)[0] = static_cast<float>(seen);
  }
  return {};
}

void Partition::Impl::extend(RowRef row) {
  const float* const from = store.words(row); // stays until the next insert
  const std::uint64_t key = store.key(row);
  const RowRef full = change_kind(row, RowKind::Full);
  float* const to = store.words(full);
  std::copy_n(from, rules.words(RowKind::Base), to);
  rules.create_embedx(key, to);
  mark_recent(full);
}

void Partition::Impl::push_one(
    std::uint64_t key, RowRef row, float* to, std::span<const float> record) {
  if (!row.exists() || row.kind() == RowKind::Pending) {
    row = admit(key, row, record);
    if (!row.exists()) {
      return;
    }
    to = store.words(row);
  }
  before_change(row);
  rules.update(row.kind(), to, record.data(), day);
  mark_recent(row);
  if (row.kind() == RowKind::Base && rules.wants_embedx(to)) {
    extend(row);
  }
}

void Partition::Impl::mark_recent(const RowGroup& group) {
  if (disk) {
    for (std::size_t i = 0; i < group.count; ++i) {
      store.slab(group.rows[i].kind()).set_recent(group.rows[i].index());
    }
  }
}

void Partition::Impl::pull_group(
    const RowGroup& group, float* out, bool create_unknown) {
  if (group.all_full && rules.weights_alone()) {
    rules.select(group, out);
    mark_recent(group);
    return;
  }
  const auto dim = static_cast<std::size_t>(rules.layout().pull_dim);
  for (std::size_t i = 0; i < group.count; ++i) {
    const RowStore::Found found = store.current(group, i);
    pull_one(
        group.keys[i], found.row, found.words, out + i * dim, create_unknown);
  }
}

void Partition::Impl::push_group(
    const RowGroup& group, std::span<const float> records) {
  if (group.all_full && rules.weights_alone() && !snapshot) {
    rules.update(group, records.data());
    mark_recent(group);
    return;
  }
  const auto dim = static_cast<std::size_t>(rules.layout().push_dim);
  for (std::size_t i = 0; i < group.count; ++i) {
    const RowStore::Found found = store.current(group, i);
    push_one(
        group.keys[i], found.row, found.words, records.subspan(i * dim, dim));
  }
}

Partition::Partition(const SparseConfig& config, int index) {
  check(config);
  impl_ = std::make_unique<Impl>(config, index);
}

Partition::~Partition() = default;

const RowLayout& Partition::layout() const {
  return impl_->rules.layout();
}

void Partition::pull(
    std::span<const std::uint64_t> keys, std::span<float> values, bool create) {
  Impl& impl = *impl_;
  const SparseConfig& config = impl.rules.config();
  const auto dim = static_cast<std::size_t>(layout().pull_dim);
  check_floats(config, "pull", keys.size(), values.size(), dim);
  create = create && config.unknown_key == UnknownKey::Create;
  impl.lookups += keys.size();
  impl.promote(keys);
  impl.store.find_groups(keys, [&](const RowGroup& group) {
    impl.pull_group(group, values.data() + group.first * dim, create);
  });
  impl.evict();
}

void Partition::push(
    std::span<const std::uint64_t> keys, std::span<const float> records) {
  Impl& impl = *impl_;
  const SparseConfig& config = impl.rules.config();
  const auto dim = static_cast<std::size_t>(layout().push_dim);
  check_floats(config, "push", keys.size(), records.size(), dim);
  const auto finite = rule_kernels(simd::current_isa()).all_finite;
  if (config.refuse_non_finite && !finite(records.data(), records.size())) {
    refuse_record(config, keys, records);
  }
  impl.lookups += keys.size();
  impl.promote(keys);
  impl.store.find_groups(keys, [&](const RowGroup& group) {
    impl.push_group(
        group, records.subspan(group.first * dim, group.count * dim));
  });
  impl.evict();
}

void Partition::set_weights(
    std::span<const std::uint64_t> keys, std::span<const float> weights) {
  Impl& impl = *impl_;
  const SparseConfig& config = impl.rules.config();
  ARGOSY_CHECK(
      config.accessor == Accessor::Embedding,
      "[ps.set_rows] table '{}' counts shows and clicks, expected weights "
      "alone",
      config.name);
  const auto dim = static_cast<std::size_t>(layout().embedx_dim);
  check_floats(config, "set_rows", keys.size(), weights.size(), dim);
  impl.promote(keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    RowRef row = impl.store.find(keys[i]);
    if (row.exists() && row.kind() == RowKind::Full) {
      impl.before_change(row);
    } else {
      row = impl.create(keys[i], row);
    }
    std::copy_n(
        weights.begin() + static_cast<std::ptrdiff_t>(i * dim),
        dim,
        impl.store.words(row) + layout().embedx_w);
    impl.mark_recent(row);
  }
  impl.evict();
}

void Partition::set_learning_rate(float rate) {
  ARGOSY_CHECK(
      std::isfinite(rate),
      "[ps.learning_rate] table '{}': rate {}, expected a finite number",
      impl_->rules.config().name,
      rate);
  impl_->rules.set_learning_rate(rate);
}

// ---- Rows from outside ------------------------------------------------------

void Partition::Impl::check_import(const RowBatch& rows) const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t count = rows.row(i).size();
    ARGOSY_CHECK(
        rules.kind_of(count).has_value(),
        "[ps.import] table '{}': the row of key {} has {} words, expected {} "
        "or {}",
        rules.config().name,
        rows.keys[i],
        count,
        rules.layout().base_words,
        rules.layout().full_words);
  }
}

void Partition::Impl::insert_copy(
    std::uint64_t key, std::span<const float> from) {
  const RowRef row = insert(key, *rules.kind_of(from.size()));
  std::copy(from.begin(), from.end(), store.words(row));
  mark_recent(row);
}

void Partition::import_rows(const RowBatch& rows) {
  Impl& impl = *impl_;
  impl.check_import(rows);
  impl.promote(rows.keys); // what is replaced may be on disk
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> words = rows.row(i);
    const RowKind kind = *impl.rules.kind_of(words.size());
    const RowRef old = impl.store.find(rows.keys[i]);
    if (old.exists()) {
      impl.erase(old);
    }
    if (impl.rules.load_filtered(kind, words.data())) {
      continue;
    }
    impl.insert_copy(rows.keys[i], words);
    const RowRef row = impl.store.find(rows.keys[i]);
    impl.rules.to_inside(kind, impl.store.words(row), impl.day);
  }
  impl.evict();
}

void Partition::end_day() {
  impl_->day += 1;
}

void Partition::clear() {
  Impl& impl = *impl_;
  impl.snapshot.reset();
  impl.shrinking.reset();
  impl.demoting.reset();
  impl.store = RowStore(impl.rules.layout());
  impl.clock_hand = RowRef::of(RowKind::Full, 0);
  if (impl.disk) {
    impl.disk->clear();
  }
}

PartitionStat Partition::stat() const {
  const RowStore& store = impl_->store;
  PartitionStat stat;
  stat.full_rows = store.slab(RowKind::Full).size();
  stat.disk_rows = impl_->disk ? impl_->disk->size() : 0;
  stat.rows = impl_->rows_in_memory() + stat.disk_rows;
  stat.pending = store.slab(RowKind::Pending).size();
  stat.memory_bytes = store.memory_bytes();
  if (impl_->disk) {
    stat.memory_bytes += impl_->disk->memory_bytes();
    stat.disk_reads = impl_->disk->reads();
  }
  stat.disk_hits = impl_->disk_hits;
  stat.lookups = impl_->lookups;
  return stat;
}

} // namespace argosy::ps
