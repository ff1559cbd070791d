#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/common/net.h"
#include "argosy/store/kv.h"

namespace argosy::store {

// A Kv in etcd, over the JSON gateway of its v3 API. Keys are stored as
// `<prefix>/<key>`, values as they are.
//
// etcd may go away and come back while calls are under way: they go on, and
// each changes the store exactly once. A call that throws TimeoutError may or
// may not have changed it.
class EtcdKv final : public Kv {
 public:
  // Connects to nothing yet. Throws InvalidArgument without an endpoint or
  // without a prefix.
  EtcdKv(const std::vector<Endpoint>& endpoints, const std::string& prefix);
  ~EtcdKv() override;

  // Returns when etcd answers. Throws StoreError when something else does, or
  // no host resolves.
  void ping(Deadline deadline);

  void set(
      const std::string& key,
      const std::string& value,
      Deadline deadline,
      const Lease* lease = nullptr) override;
  std::optional<std::string> get(
      const std::string& key, Deadline deadline) override;
  std::int64_t add(
      const std::string& key, std::int64_t amount, Deadline deadline) override;
  CompareSet compare_set(
      const std::string& key,
      const std::optional<std::string>& expected,
      const std::string& desired,
      Deadline deadline) override;
  void wait(const std::vector<std::string>& keys, Deadline deadline) override;
  bool erase(const std::string& key, Deadline deadline) override;
  std::map<std::string, std::string> list(
      const std::string& prefix, Deadline deadline) override;

  // etcd counts in seconds: `ttl` is rounded up, and etcd may make a short one
  // longer (2 s with its default election time-out).
  std::unique_ptr<Lease> grant(
      std::chrono::milliseconds ttl, Deadline deadline) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::store
