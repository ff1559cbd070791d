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

// What compare_set() did.
struct CompareSet {
  bool swapped = false;
  std::optional<std::string> value; // what the key holds now; nothing: absent
};

// Keeps the keys that were set with it alive. They vanish when the holder is
// gone for the lease's time, however it went; release() or the destructor lets
// them go at once. Renewed in the background.
class Lease {
 public:
  virtual ~Lease() = default;

  // False once the store has forgotten the lease, so its keys are gone.
  virtual bool alive() const = 0;
  virtual void release() = 0;
};

// A store of keys and values where processes meet, without torch: what the
// launcher uses, and what store::KvStore turns into a c10d::Store.
//
// All calls are thread-safe and block at most until the deadline. They throw
// TimeoutError at the deadline (it names the missing keys), StoreError when the
// store refuses or is lost for good.
class Kv {
 public:
  virtual ~Kv() = default;

  // With a lease, the key lives no longer than it.
  virtual void set(
      const std::string& key,
      const std::string& value,
      Deadline deadline,
      const Lease* lease = nullptr) = 0;

  // Nothing when the key is absent; does not wait for it.
  virtual std::optional<std::string> get(
      const std::string& key, Deadline deadline) = 0;

  // Adds to the decimal number that the key holds (absent: 0), and returns the
  // sum. Atomic.
  virtual std::int64_t add(
      const std::string& key, std::int64_t amount, Deadline deadline) = 0;

  // Sets `desired` if the key holds `expected` (nothing: is absent). Atomic.
  virtual CompareSet compare_set(
      const std::string& key,
      const std::optional<std::string>& expected,
      const std::string& desired,
      Deadline deadline) = 0;

  // Returns when all keys exist.
  virtual void wait(
      const std::vector<std::string>& keys, Deadline deadline) = 0;

  // Whether the key existed.
  virtual bool erase(const std::string& key, Deadline deadline) = 0;

  // All keys that start with `prefix`, with their values.
  virtual std::map<std::string, std::string> list(
      const std::string& prefix, Deadline deadline) = 0;

  // A new lease that outlives its holder by at most `ttl`.
  virtual std::unique_ptr<Lease> grant(
      std::chrono::milliseconds ttl, Deadline deadline) = 0;
};

} // namespace argosy::store
