#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace argosy::checkpoint {

// The values that were asked for last.
template <typename Key, typename Value>
class LruCache {
 public:
  explicit LruCache(std::size_t capacity) : capacity_(capacity) {}

  void set_capacity(std::size_t capacity) { capacity_ = capacity; }

  // The value of a key; `make` gives it if it is not kept. Valid up to the next
  // call.
  template <typename Make>
  const Value& get(const Key& key, const Make& make) {
    const auto found = index_.find(key);
    if (found != index_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return entries_.front().second;
    }
    Value value = make();
    while (!entries_.empty() && entries_.size() >= capacity_) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, std::move(value));
    index_[key] = entries_.begin();
    return entries_.front().second;
  }

  void clear() {
    index_.clear();
    entries_.clear();
  }

 private:
  using Entries = std::list<std::pair<Key, Value>>;

  std::size_t capacity_;
  Entries entries_; // the last one first
  std::map<Key, typename Entries::iterator> index_;
};

} // namespace argosy::checkpoint
