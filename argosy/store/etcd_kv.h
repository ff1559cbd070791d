#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/common/net.h"
#include "argosy/store/credentials.h"
#include "argosy/store/kv.h"

namespace argosy::store {

// How to be let in by etcd.
struct EtcdAccess {
  bool https = false;
  TlsFiles tls{}; // for https: its authority, and our certificate if any
  Login login{};
};

// A Kv in etcd, over the JSON gateway of its v3 API. Keys are stored as
// `<prefix>/<key>`, values unchanged.
//
// Survives restarts of etcd: pending calls continue, and each changes the store
// exactly once. A call that throws TimeoutError may or may not have changed it.
class EtcdKv final : public Kv {
 public:
  // Does not connect yet. Throws InvalidArgument if `endpoints` or `prefix` is
  // empty.
  EtcdKv(
      const std::vector<Endpoint>& endpoints,
      const std::string& prefix,
      const EtcdAccess& access = EtcdAccess());
  ~EtcdKv() override;

  // Blocks until etcd answers. Throws StoreError when something else answers or
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

  // etcd counts seconds: `ttl` is rounded up, and etcd may lengthen a short one
  // (to 2 s with its default election time-out).
  std::unique_ptr<Lease> grant(
      std::chrono::milliseconds ttl, Deadline deadline) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::store
