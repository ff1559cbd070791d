#include "argosy/store/kv_table.h"

#include "argosy/common/error.h"
#include "argosy/store/counter.h"
#include "argosy/store/error_text.h"

namespace argosy::store {

namespace {

// About what a node of the map takes beside the characters.
constexpr std::size_t kEntryBytes = 128;

std::size_t entry_bytes(const std::string& key, const std::string& value) {
  return key.size() + value.size() + kEntryBytes;
}

} // namespace

void KvTable::put(
    const std::string& key, std::string value, std::int64_t lease) {
  const auto held = entries_.find(key);
  const std::size_t before =
      held == entries_.end() ? 0 : entry_bytes(key, held->second.value);
  const std::size_t after = bytes_ - before + entry_bytes(key, value);
  if (after > limits_.bytes) {
    throw StoreError(str_format(
        "[store.set] key {} with {} bytes would make the table {} bytes, "
        "expected at most {}",
        quoted_bytes(key),
        value.size(),
        after,
        limits_.bytes));
  }
  entries_[key] = {std::move(value), lease};
  bytes_ = after;
}

void KvTable::set(
    const std::string& key, const std::string& value, std::int64_t lease) {
  if (lease != 0 && !leases_.contains(lease)) {
    throw StoreError(str_format(
        "[store.set] key {} cannot be set: its lease has expired",
        quoted_bytes(key)));
  }
  put(key, value, lease);
}

std::optional<std::string> KvTable::get(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? std::nullopt
                                 : std::optional(found->second.value);
}

// As in etcd, writing a key without a lease detaches it from the lease that it
// had.
std::int64_t KvTable::add(const std::string& key, std::int64_t amount) {
  const std::int64_t sum = counter_sum(key, get(key), amount);
  put(key, std::to_string(sum), 0);
  return sum;
}

CompareSet KvTable::compare_set(
    const std::string& key,
    const std::optional<std::string>& expected,
    const std::string& desired) {
  auto held = get(key);
  if (held != expected) {
    return {false, std::move(held)};
  }
  put(key, desired, 0);
  return {true, desired};
}

bool KvTable::erase(const std::string& key) {
  const auto held = entries_.find(key);
  if (held == entries_.end()) {
    return false;
  }
  bytes_ -= entry_bytes(key, held->second.value);
  entries_.erase(held);
  return true;
}

std::map<std::string, std::string> KvTable::list(
    const std::string& prefix, std::size_t most_bytes) const {
  std::map<std::string, std::string> found;
  std::size_t bytes = 0;
  for (auto i = entries_.lower_bound(prefix);
       i != entries_.end() && i->first.starts_with(prefix);
       ++i) {
    bytes += i->first.size() + i->second.value.size();
    if (bytes > most_bytes) {
      throw StoreError(str_format(
          "[store.list] the keys that begin with {} have {} bytes and more, "
          "expected at most {}",
          quoted_bytes(prefix),
          bytes,
          most_bytes));
    }
    found.emplace_hint(found.end(), i->first, i->second.value);
  }
  return found;
}

std::vector<std::string> KvTable::missing(
    const std::vector<std::string>& keys) const {
  std::vector<std::string> absent;
  for (const std::string& key : keys) {
    if (!entries_.contains(key)) {
      absent.push_back(key);
    }
  }
  return absent;
}

std::int64_t KvTable::grant(std::chrono::milliseconds ttl, Time now) {
  if (leases_.size() >= limits_.leases) {
    throw StoreError(str_format(
        "[store.grant] there are {} leases, expected fewer than {}",
        leases_.size(),
        limits_.leases));
  }
  leases_[++last_lease_] = {ttl, now + ttl};
  return last_lease_;
}

bool KvTable::renew(std::int64_t lease, Time now) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) {
    return false;
  }
  found->second.end = now + found->second.ttl;
  return true;
}

void KvTable::revoke(std::int64_t lease) {
  if (leases_.erase(lease) > 0) {
    // Entries name their lease, so a key that was set again without it stays.
    std::erase_if(entries_, [&](const auto& entry) {
      const bool ends = entry.second.lease == lease;
      bytes_ -= ends ? entry_bytes(entry.first, entry.second.value) : 0;
      return ends;
    });
  }
}

// Linear in the number of leases; an expired one costs a pass over all keys.
// Leases are few: each launcher holds one.
std::optional<KvTable::Time> KvTable::expire(Time now) {
  std::vector<std::int64_t> ended;
  std::optional<Time> next;
  for (const auto& [lease, term] : leases_) {
    if (term.end <= now) {
      ended.push_back(lease);
    } else if (!next || term.end < *next) {
      next = term.end;
    }
  }
  for (const std::int64_t lease : ended) {
    revoke(lease);
  }
  return next;
}

bool TableWait::done(const KvTable& table) {
  // Starts at the key that was absent. Checks all keys, since a key seen before
  // may have been erased.
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const std::size_t at = (absent_ + i) % keys_.size();
    if (!table.entries_.contains(keys_[at])) {
      absent_ = at;
      return false;
    }
  }
  return true;
}

} // namespace argosy::store
