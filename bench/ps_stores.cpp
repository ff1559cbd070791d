#include "bench/ps_stores.h"

#include <absl/container/flat_hash_map.h>
#include <hiredis/hiredis.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>
#include <unordered_map>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"

namespace argosy::bench {
namespace {

// The rule of the tables, as a loop that the compiler vectorizes.
void adagrad(float* row, const float* gradient, int dim) {
  float& g2 = row[dim];
  const float rate = 0.05f * std::sqrt(3 / (3 + g2));
  float squares = 0;
  for (int i = 0; i < dim; ++i) {
    row[i] -= rate * gradient[i];
    squares += gradient[i] * gradient[i];
  }
  g2 += squares / static_cast<float>(dim);
}

template <template <typename...> class Map, int kDim>
class MapStore : public Store {
 public:
  void pull(
      std::span<const std::uint64_t> keys, std::span<float> values) override {
    float* out = values.data();
    for (const std::uint64_t key : keys) {
      const auto found = map_.find(key);
      if (found == map_.end()) {
        std::memset(out, 0, kDim * sizeof(float));
      } else {
        std::memcpy(out, found->second.data(), kDim * sizeof(float));
      }
      out += kDim;
    }
  }

  void push(
      std::span<const std::uint64_t> keys,
      std::span<const float> gradients) override {
    const float* gradient = gradients.data();
    for (const std::uint64_t key : keys) {
      adagrad(map_[key].data(), gradient, kDim);
      gradient += kDim;
    }
  }

 private:
  Map<std::uint64_t, std::array<float, kDim + 1>> map_;
};

template <typename K, typename V>
using StdMap = std::unordered_map<K, V>;
template <typename K, typename V>
using AbslMap = absl::flat_hash_map<K, V>;

template <template <typename...> class Map>
std::unique_ptr<Store> make_map(int dim) {
  switch (dim) {
    case 8:
      return std::make_unique<MapStore<Map, 8>>();
    case 16:
      return std::make_unique<MapStore<Map, 16>>();
    case 64:
      return std::make_unique<MapStore<Map, 64>>();
  }
  throw InvalidArgument(str("[bench] dim ", dim, ", expected 8, 16 or 64"));
}

// Stores that give and take rows as bytes: a push reads, updates and writes.
class BytesStore : public Store {
 public:
  explicit BytesStore(int dim) : dim_(static_cast<std::size_t>(dim)) {}

  void pull(
      std::span<const std::uint64_t> keys, std::span<float> values) override {
    read(keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::memcpy(&values[i * dim_], row(i), dim_ * sizeof(float));
    }
  }

  void push(
      std::span<const std::uint64_t> keys,
      std::span<const float> gradients) override {
    read(keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      adagrad(row(i), &gradients[i * dim_], static_cast<int>(dim_));
    }
    write(keys);
  }

 protected:
  // Fill rows_ for these keys, with zeros for those that are missing; store
  // them.
  virtual void read(std::span<const std::uint64_t> keys) = 0;
  virtual void write(std::span<const std::uint64_t> keys) = 0;

  float* row(std::size_t i) { return &rows_[i * (dim_ + 1)]; }
  std::size_t row_bytes() const { return (dim_ + 1) * sizeof(float); }
  void resize(std::size_t keys) { rows_.assign(keys * (dim_ + 1), 0); }

 private:
  std::size_t dim_;
  std::vector<float> rows_;
};

const char* chars(const void* data) {
  return static_cast<const char*>(data);
}

class RocksStore : public BytesStore {
 public:
  RocksStore(int dim, const std::string& folder) : BytesStore(dim) {
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.block_cache = rocksdb::NewLRUCache(1u << 30);
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    write_.disableWAL = true;
    rocksdb::DB* opened = nullptr;
    const auto status = rocksdb::DB::Open(options, folder, &opened);
    ARGOSY_CHECK(status.ok(), "[bench] RocksDB: {}", status.ToString());
    db_.reset(opened);
  }

 protected:
  void read(std::span<const std::uint64_t> keys) override {
    resize(keys.size());
    std::vector<rocksdb::Slice> slices;
    for (const std::uint64_t& key : keys) {
      slices.emplace_back(chars(&key), sizeof(key));
    }
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_->MultiGet(
        {},
        db_->DefaultColumnFamily(),
        keys.size(),
        slices.data(),
        values.data(),
        statuses.data());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].ok()) {
        std::memcpy(row(i), values[i].data(), values[i].size());
      }
    }
  }

  void write(std::span<const std::uint64_t> keys) override {
    rocksdb::WriteBatch batch;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      batch.Put(
          {chars(&keys[i]), sizeof(keys[i])}, {chars(row(i)), row_bytes()});
    }
    db_->Write(write_, &batch);
  }

 private:
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions write_;
};

// A server on a Unix socket, and all keys of a batch in one command.
class RedisStore : public BytesStore {
 public:
  RedisStore(int dim, const std::string& folder) : BytesStore(dim) {
    start(folder + "/redis.sock");
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    while (context_ == nullptr || context_->err != 0) {
      ARGOSY_CHECK(!deadline.expired(), "[bench] redis-server does not answer");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (context_ != nullptr) {
        redisFree(context_);
      }
      context_ = redisConnectUnix((folder + "/redis.sock").c_str());
    }
  }

  ~RedisStore() override {
    redisFree(context_);
    ::kill(server_, SIGTERM);
    ::waitpid(server_, nullptr, 0);
  }

 protected:
  void read(std::span<const std::uint64_t> keys) override {
    resize(keys.size());
    begin("MGET");
    for (const std::uint64_t& key : keys) {
      add(&key, sizeof(key));
    }
    redisReply* const reply = send();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const redisReply& value = *reply->element[i];
      if (value.type == REDIS_REPLY_STRING) {
        std::memcpy(row(i), value.str, value.len);
      }
    }
    freeReplyObject(reply);
  }

  void write(std::span<const std::uint64_t> keys) override {
    begin("MSET");
    for (std::size_t i = 0; i < keys.size(); ++i) {
      add(&keys[i], sizeof(keys[i]));
      add(row(i), row_bytes());
    }
    freeReplyObject(send());
  }

 private:
  void start(const std::string& socket) {
    std::vector<std::string> words = {
        "redis-server",
        "--port",
        "0",
        "--unixsocket",
        socket,
        "--save",
        "",
        "--appendonly",
        "no",
        "--logfile",
        "/dev/null"};
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    errno = ::posix_spawnp(
        &server_, "redis-server", nullptr, nullptr, arguments.data(), environ);
    ARGOSY_CHECK(errno == 0, "{}", with_errno("[bench] redis-server"));
  }

  void begin(const char* command) {
    arguments_.assign(1, command);
    lengths_.assign(1, std::strlen(command));
  }
  void add(const void* data, std::size_t bytes) {
    arguments_.push_back(chars(data));
    lengths_.push_back(bytes);
  }
  redisReply* send() {
    void* const reply = redisCommandArgv(
        context_,
        static_cast<int>(arguments_.size()),
        arguments_.data(),
        lengths_.data());
    ARGOSY_CHECK(reply != nullptr, "[bench] redis: {}", context_->errstr);
    return static_cast<redisReply*>(reply);
  }

  pid_t server_ = -1;
  redisContext* context_ = nullptr;
  std::vector<const char*> arguments_;
  std::vector<std::size_t> lengths_;
};

} // namespace

std::unique_ptr<Store> make_peer(
    const std::string& name, int dim, const std::string& folder) {
  if (name == "std::unordered_map") {
    return make_map<StdMap>(dim);
  }
  if (name == "abseil") {
    return make_map<AbslMap>(dim);
  }
  if (name == "RocksDB") {
    return std::make_unique<RocksStore>(dim, folder);
  }
  ARGOSY_CHECK(name == "Redis", "[bench] no peer '{}'", name);
  return std::make_unique<RedisStore>(dim, folder);
}

} // namespace argosy::bench
