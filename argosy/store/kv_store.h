#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <vector>

#include "argosy/store/kv.h"

namespace argosy::store {

// A c10d::Store over any Kv, for all that c10d builds on a store. Thread-safe,
// but for setTimeout().
//
// Every call is limited by the store's time-out (5 minutes unless set; 0 means
// none). Throws what the Kv throws, so a wait that ends without its keys is an
// argosy::TimeoutError that names them.
class KvStore final : public c10d::Store {
 public:
  explicit KvStore(
      std::shared_ptr<Kv> kv,
      std::chrono::milliseconds timeout = c10d::Store::kDefaultTimeout);
  ~KvStore() override;

  void set(
      const std::string& key, const std::vector<std::uint8_t>& value) override;

  // An empty `expected` also matches an absent key. Returns what the key holds
  // now; `expected`, as all of c10d's stores do, when it is absent.
  std::vector<std::uint8_t> compareSet(
      const std::string& key,
      const std::vector<std::uint8_t>& expected,
      const std::vector<std::uint8_t>& desired) override;

  // Waits for the key.
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
