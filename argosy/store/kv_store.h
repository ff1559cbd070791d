#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <vector>

#include "argosy/store/kv.h"

namespace argosy::store {

// A c10d::Store over any Kv, for c10d components. Thread-safe, except for
// setTimeout().
//
// Every call is limited by the store's time-out (5 minutes by default; 0 means
// none). Throws what the Kv throws: a wait that ends without its keys throws
// argosy::TimeoutError, naming them.
class KvStore final : public c10d::Store {
 public:
  explicit KvStore(
      std::shared_ptr<Kv> kv,
      std::chrono::milliseconds timeout = c10d::Store::kDefaultTimeout);
  ~KvStore() override;

  void set(
      const std::string& key, const std::vector<std::uint8_t>& value) override;

  // An empty `expected` also matches an absent key. Returns the current value;
  // if the key is absent, returns `expected`, as c10d's stores do.
  std::vector<std::uint8_t> compareSet(
      const std::string& key,
      const std::vector<std::uint8_t>& expected,
      const std::vector<std::uint8_t>& desired) override;

  // Blocks until the key exists.
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& timeout) override;

  const std::shared_ptr<Kv>& kv() const { return kv_; }

 private:
  Deadline deadline() const;

  const std::shared_ptr<Kv> kv_;
};

} // namespace argosy::store
