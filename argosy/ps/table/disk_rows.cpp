#include "argosy/ps/table/disk_rows.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/slice.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

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

rocksdb::Options database_options(std::size_t cache_bytes) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_size = 4096;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression; // floats do not shrink
  options.write_buffer_size = 16u << 20;
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  options.keep_log_file_num = 1;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
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

  Database(const std::string& folder_, std::size_t cache_bytes)
      : folder(folder_) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    const rocksdb::Options options = database_options(cache_bytes);
    check_status(rocksdb::DestroyDB(folder, options), "clear", folder);
    rocksdb::DB* opened = nullptr;
    check_status(rocksdb::DB::Open(options, folder, &opened), "open", folder);
    db.reset(opened);
    // Rows in memory do not survive the process either.
    write.disableWAL = true;
  }
};

DiskRows::DiskRows(const std::string& folder, std::size_t cache_bytes)
    : database_(std::make_unique<Database>(folder, cache_bytes)) {}

DiskRows::~DiskRows() = default;

void DiskRows::put(const RowBatch& rows) {
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    batch.Put(DiskKey(rows.keys[i]).slice(), slice_of(rows.row(i)));
  }
  check_status(
      database_->db->Write(database_->write, &batch),
      "write",
      database_->folder);
  size_ += rows.size();
}

std::vector<float> DiskRows::read(std::uint64_t key) {
  if (empty()) {
    return {};
  }
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

void DiskRows::replace(std::uint64_t key, std::span<const float> words) {
  check_status(
      database_->db->Put(
          database_->write, DiskKey(key).slice(), slice_of(words)),
      "write",
      database_->folder);
}

void DiskRows::take(std::span<const std::uint64_t> keys, RowBatch& out) {
  if (empty() || keys.empty()) {
    return;
  }
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
      statuses.data());
  rocksdb::WriteBatch taken;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].IsNotFound()) {
      continue;
    }
    check_status(statuses[i], "read", database_->folder);
    append_row(keys[i], values[i], out);
    taken.Delete(slices[i]);
  }
  check_status(
      database_->db->Write(database_->write, &taken),
      "write",
      database_->folder);
  size_ -= taken.Count();
}

void DiskRows::erase(std::uint64_t key) {
  check_status(
      database_->db->Delete(database_->write, DiskKey(key).slice()),
      "write",
      database_->folder);
  --size_;
}

void DiskRows::clear() {
  Cut all(*this);
  RowBatch rows;
  while (all.next(4096, rows)) {
    for (const std::uint64_t key : rows.keys) {
      erase(key);
    }
    rows.clear();
  }
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
