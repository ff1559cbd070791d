#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "argosy/store/kv.h"

namespace argosy::store {

// How much a table may hold.
struct TableLimits {
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
  std::size_t leases = std::numeric_limits<std::size_t>::max();
};

// The keys and leases of a store; shared by MemKv and KvServer. Not
// thread-safe, never blocks. Time is an argument. A write or grant that would
// exceed the limits throws StoreError and changes nothing.
class KvTable {
 public:
  using Time = Deadline::Clock::time_point;

  explicit KvTable(const TableLimits& limits = {}) : limits_(limits) {}

  // `lease` 0: none. Every write detaches the key from its previous lease.
  // Throws StoreError when the lease is unknown.
  void set(
      const std::string& key, const std::string& value, std::int64_t lease = 0);
  std::optional<std::string> get(const std::string& key) const;

  // Throws StoreError as counter_sum() does.
  std::int64_t add(const std::string& key, std::int64_t amount);
  CompareSet compare_set(
      const std::string& key,
      const std::optional<std::string>& expected,
      const std::string& desired);
  bool erase(const std::string& key);

  // All keys with this prefix. Throws StoreError when they and their values
  // have more than `most_bytes` together.
  std::map<std::string, std::string> list(
      const std::string& prefix,
      std::size_t most_bytes = std::numeric_limits<std::size_t>::max()) const;
  std::vector<std::string> missing(const std::vector<std::string>& keys) const;

  std::int64_t grant(std::chrono::milliseconds ttl, Time now);

  // Returns false when the lease is unknown.
  bool renew(std::int64_t lease, Time now);
  bool has_lease(std::int64_t lease) const { return leases_.contains(lease); }
  void revoke(std::int64_t lease);

  // Revokes expired leases; returns when the next one expires.
  std::optional<Time> expire(Time now);

 private:
  friend class TableWait;

  struct Entry {
    std::string value;
    std::int64_t lease = 0;
  };
  struct LeaseTerm {
    std::chrono::milliseconds ttl;
    Time end;
  };

  void put(const std::string& key, std::string value, std::int64_t lease);

  const TableLimits limits_;
  std::size_t bytes_ = 0; // of entries_, with what a map needs for them
  std::map<std::string, Entry> entries_;
  std::map<std::int64_t, LeaseTerm> leases_;
  std::int64_t last_lease_ = 0;
};

// A wait for keys of a table. Remembers one absent key, so that checking again
// after an unrelated write costs one lookup.
class TableWait {
 public:
  explicit TableWait(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  bool done(const KvTable& table);
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  std::vector<std::string> keys_;
  std::size_t absent_ = 0; // where the search for an absent key starts
};

} // namespace argosy::store
