#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"

namespace argosy::store {

// The result of compare_set().
struct CompareSet {
  bool swapped = false;
  std::optional<std::string> value; // current value; nullopt: absent
};

// Keeps the keys that were set with it alive. It is renewed in the background.
// Its keys are removed by release() or the destructor, or when the lease's ttl
// has passed after the holder died.
class Lease {
 public:
  virtual ~Lease() = default;

  // Returns false once the store no longer knows the lease, so its keys are
  // gone.
  virtual bool alive() const = 0;
  virtual void release() = 0;
};

// A key-value store where processes meet, without torch. The launcher uses it;
// store::KvStore makes a c10d::Store of it.
//
// All methods are thread-safe and block at most until the deadline. They throw
// TimeoutError at the deadline (naming the missing keys), and StoreError when
// the store refuses or is permanently lost.
class Kv {
 public:
  virtual ~Kv() = default;

  // With a lease, the key does not outlive it.
  virtual void set(
      const std::string& key,
      const std::string& value,
      Deadline deadline,
      const Lease* lease = nullptr) = 0;

  // Returns nullopt if the key is absent; does not wait for it.
  virtual std::optional<std::string> get(
      const std::string& key, Deadline deadline) = 0;

  // Adds to the decimal number in the key (absent: 0) and returns the sum.
  // Atomic.
  virtual std::int64_t add(
      const std::string& key, std::int64_t amount, Deadline deadline) = 0;

  // Sets `desired` if the key's value is `expected` (nullopt: absent). Atomic.
  virtual CompareSet compare_set(
      const std::string& key,
      const std::optional<std::string>& expected,
      const std::string& desired,
      Deadline deadline) = 0;

  // Blocks until all keys exist.
  virtual void wait(
      const std::vector<std::string>& keys, Deadline deadline) = 0;

  // Returns whether the key existed.
  virtual bool erase(const std::string& key, Deadline deadline) = 0;

  // Returns all keys that start with `prefix`, with their values.
  virtual std::map<std::string, std::string> list(
      const std::string& prefix, Deadline deadline) = 0;

  // Grants a lease that expires at most `ttl` after its holder dies.
  virtual std::unique_ptr<Lease> grant(
      std::chrono::milliseconds ttl, Deadline deadline) = 0;
};

} // namespace argosy::store
