#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "argosy/common/net.h"
#include "argosy/store/credentials.h"
#include "argosy/store/kv.h"

namespace argosy::store {

struct TcpKvOptions {
  // How long to retry when a server that was reached before is gone.
  std::chrono::milliseconds reconnect = std::chrono::seconds(5);
  // What the server must have, too.
  Credentials credentials{};
  // Who serves, for messages: "rank 0". Empty: not known.
  std::string owner;
};

// A client of KvServer. Each call uses a separate connection, kept for later
// calls, so a wait does not block other threads.
//
// If a connection breaks, calls that can be repeated (set, get, wait, list,
// grant) reconnect; add, compare_set and erase throw StoreError, since the
// server may have executed them. A server that does not come back, or comes
// back empty after a restart, is permanently lost: StoreError.
class TcpKv final : public Kv {
 public:
  // Connects; retries until the deadline, so the server may start later. Throws
  // StoreError when something else answers, the server does not know our secret
  // or the name does not resolve; TimeoutError when nothing answers.
  TcpKv(const Endpoint& server, Deadline deadline, TcpKvOptions options = {});
  ~TcpKv() override;

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

  // The lease belongs to the server, not to a connection: it survives a
  // reconnection within `ttl`.
  std::unique_ptr<Lease> grant(
      std::chrono::milliseconds ttl, Deadline deadline) override;

 private:
  std::shared_ptr<class TcpClient> client_; // shared with leases
};

} // namespace argosy::store
