#include "argosy/ps/table/disk_rows.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/slice.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

void check_status(
    const rocksdb::Status& status, const char* op, const std::string& folder) {
  if (!status.ok()) {
    throw SystemError(
        str("[ps.ssd] cannot ", op, " ", folder, ": ", status.ToString()));
  }
}

rocksdb::BlockBasedTableOptions table_options(std::size_t cache_bytes) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_size = 4096;
  table.format_version = 5;
  table.checksum = rocksdb::kXXH3;
  table.data_block_index_type =
      rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  return table;
}

// For rows that are written in random order, taken out again by key, and almost
// always there when they are asked for.
rocksdb::Options database_options(DiskRows::Memory memory) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression; // floats do not shrink
  // Merges write each row a few times, not once a level for each of ten.
  options.compaction_style = rocksdb::kCompactionStyleUniversal;
  options.compaction_options_universal.allow_trivial_move = true;
  options.level0_file_num_compaction_trigger = 8;
  options.level0_slowdown_writes_trigger = 24;
  options.level0_stop_writes_trigger = 40;
  options.max_write_buffer_number = 4;
  options.write_buffer_size = memory.write_bytes / 2; // one is being written
  options.memtable_insert_with_hint_prefix_extractor.reset(
      rocksdb::NewFixedPrefixTransform(0)); // one hint for all keys
  options.allow_concurrent_memtable_write = false;
  options.memtable_prefix_bloom_size_ratio = 0.05;
  options.memtable_whole_key_filtering = true;
  options.optimize_filters_for_hits = true; // none for the oldest rows
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  options.keep_log_file_num = 1;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.table_factory.reset(
      rocksdb::NewBlockBasedTableFactory(table_options(memory.cache_bytes)));
  return options;
}

// Big-endian: RocksDB compares bytes.
struct DiskKey {
  char bytes[sizeof(std::uint64_t)];

  explicit DiskKey(std::uint64_t key) {
    const std::uint64_t swapped = __builtin_bswap64(key);
    std::memcpy(bytes, &swapped, sizeof(swapped));
  }
  rocksdb::Slice slice() const { return {bytes, sizeof(bytes)}; }
};

std::uint64_t key_of(const rocksdb::Slice& slice) {
  std::uint64_t swapped = 0;
  std::memcpy(&swapped, slice.data(), sizeof(swapped));
  return __builtin_bswap64(swapped);
}

rocksdb::Slice slice_of(std::span<const float> words) {
  return {reinterpret_cast<const char*>(words.data()), words.size_bytes()};
}

void append_row(std::uint64_t key, const rocksdb::Slice& value, RowBatch& out) {
  const std::span<float> words = out.add(key, value.size() / sizeof(float));
  std::memcpy(words.data(), value.data(), words.size_bytes());
}

} // namespace

struct DiskRows::Database {
  std::string folder;
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::WriteOptions write;

  DiskRows::Memory memory;

  Database(const std::string& folder_, DiskRows::Memory memory_)
      : folder(folder_), memory(memory_) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    const rocksdb::Options options = database_options(memory);
    check_status(rocksdb::DestroyDB(folder, options), "clear", folder);
    rocksdb::DB* opened = nullptr;
    check_status(rocksdb::DB::Open(options, folder, &opened), "open", folder);
    db.reset(opened);
    // Rows in memory do not survive the process either.
    write.disableWAL = true;
  }
};

DiskRows::DiskRows(const std::string& folder, Memory memory)
    : database_(std::make_unique<Database>(folder, memory)) {}

DiskRows::~DiskRows() = default;

void DiskRows::put(const RowBatch& rows) {
  // In order: a row then begins in RocksDB's list where the last one was put.
  std::vector<std::pair<std::uint64_t, std::size_t>> order(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    order[i] = {rows.keys[i], i};
  }
  std::sort(order.begin(), order.end());
  rocksdb::WriteBatch batch;
  for (const auto& [key, i] : order) {
    batch.Put(DiskKey(rows.keys[i]).slice(), slice_of(rows.row(i)));
    filter_.add(rows.keys[i]);
    if (new_filter_) {
      new_filter_->add(rows.keys[i]);
    }
  }
  check_status(
      database_->db->Write(database_->write, &batch),
      "write",
      database_->folder);
  size_ += rows.size();
}

std::vector<float> DiskRows::read(std::uint64_t key) {
  if (empty() || !filter_.may_contain(key)) {
    return {};
  }
  ++reads_;
  rocksdb::PinnableSlice value;
  const rocksdb::Status status = database_->db->Get(
      {}, database_->db->DefaultColumnFamily(), DiskKey(key).slice(), &value);
  if (status.IsNotFound()) {
    return {};
  }
  check_status(status, "read", database_->folder);
  std::vector<float> words(value.size() / sizeof(float));
  std::memcpy(words.data(), value.data(), words.size() * sizeof(float));
  return words;
}

// Deletes meet their row early and vanish with it (SingleDelete), which needs
// that each row is written once in between.
void DiskRows::replace(std::uint64_t key, std::span<const float> words) {
  rocksdb::WriteBatch batch;
  batch.SingleDelete(DiskKey(key).slice());
  batch.Put(DiskKey(key).slice(), slice_of(words));
  check_status(
      database_->db->Write(database_->write, &batch),
      "write",
      database_->folder);
}

void DiskRows::take(std::vector<std::uint64_t> keys, RowBatch& out) {
  filter_.keep_contained(keys);
  if (empty() || keys.empty()) {
    return;
  }
  reads_ += keys.size();
  std::vector<DiskKey> bytes;
  std::vector<rocksdb::Slice> slices;
  bytes.reserve(keys.size());
  slices.reserve(keys.size());
  for (const std::uint64_t key : keys) {
    slices.push_back(bytes.emplace_back(key).slice());
  }
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  database_->db->MultiGet(
      {},
      database_->db->DefaultColumnFamily(),
      keys.size(),
      slices.data(),
      values.data(),
      statuses.data(),
      true); // sorted: DiskKey keeps the order
  rocksdb::WriteBatch taken;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].IsNotFound()) {
      continue;
    }
    check_status(statuses[i], "read", database_->folder);
    append_row(keys[i], values[i], out);
    taken.SingleDelete(slices[i]);
  }
  check_status(
      database_->db->Write(database_->write, &taken),
      "write",
      database_->folder);
  size_ -= taken.Count();
}

void DiskRows::erase(std::uint64_t key) {
  check_status(
      database_->db->SingleDelete(database_->write, DiskKey(key).slice()),
      "write",
      database_->folder);
  --size_;
}

void DiskRows::clear() {
  const std::string folder = database_->folder;
  const Memory memory = database_->memory;
  database_.reset(); // before it is opened again
  database_ = std::make_unique<Database>(folder, memory);
  filter_ = {};
  new_filter_.reset();
  size_ = 0;
}

void DiskRows::end_new_filter() {
  filter_ = std::move(*new_filter_);
  new_filter_.reset();
}

std::size_t DiskRows::memory_bytes() const {
  const auto property = [&](const std::string& name) {
    std::uint64_t bytes = 0;
    database_->db->GetIntProperty(name, &bytes);
    return static_cast<std::size_t>(bytes);
  };
  return filter_.memory_bytes() +
      property(rocksdb::DB::Properties::kSizeAllMemTables) +
      property(rocksdb::DB::Properties::kEstimateTableReadersMem) +
      property(rocksdb::DB::Properties::kBlockCacheUsage);
}

struct DiskRows::Cut::Impl {
  Database& database;
  const rocksdb::Snapshot* snapshot;
  std::unique_ptr<rocksdb::Iterator> at;

  explicit Impl(Database& owner)
      : database(owner), snapshot(owner.db->GetSnapshot()) {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;
    options.fill_cache = false;
    at.reset(database.db->NewIterator(options));
    at->SeekToFirst();
  }
  ~Impl() {
    at.reset();
    database.db->ReleaseSnapshot(snapshot);
  }
};

DiskRows::Cut::Cut(DiskRows& rows)
    : impl_(std::make_unique<Impl>(*rows.database_)) {}

DiskRows::Cut::~Cut() = default;

bool DiskRows::Cut::next(std::size_t max_rows, RowBatch& out) {
  rocksdb::Iterator& at = *impl_->at;
  std::size_t added = 0;
  for (; added < max_rows && at.Valid(); ++added, at.Next()) {
    append_row(key_of(at.key()), at.value(), out);
  }
  check_status(at.status(), "read", impl_->database.folder);
  return added > 0;
}

} // namespace argosy::ps
