#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/store/etcd_http.h"
#include "argosy/store/etcd_kv.h"

namespace argosy::store {

// etcd answered with an error.
class EtcdRefused : public StoreError {
 public:
  EtcdRefused(int code, const std::string& message)
      : StoreError(message), code_(code) {}

  bool not_found() const { return code_ == 5; } // gRPC's status code NOT_FOUND
  bool unauthenticated() const { return code_ == 16; }

 private:
  int code_;
};

// No endpoint answered by the deadline.
class EtcdUnreachable : public TimeoutError {
 public:
  using TimeoutError::TimeoutError;
};

// Sends requests to etcd's JSON gateway and survives its restarts. Thread-safe.
//
// If a member cannot be reached or cannot serve now, retries after a pause,
// with the next member, until the deadline. So a request may be executed more
// than once; callers must make that harmless (see EtcdTxn).
class EtcdClient {
 public:
  // Does not connect yet.
  EtcdClient(std::vector<Endpoint> endpoints, const EtcdAccess& access);

  // Throws StoreError when none of the hosts resolves; call() would keep
  // trying.
  void resolve_any(Deadline deadline) const;

  // POSTs to /v3/<path>. Throws EtcdRefused; StoreError when the answer is not
  // from etcd; EtcdUnreachable, naming the endpoints and the last failure.
  nlohmann::json call(
      const std::string& path,
      const nlohmann::json& request,
      Deadline deadline);

  // Passes each message of a stream to `on_message` until it returns false or
  // the stream ends. Tries once. Returns "", or why there was no stream.
  std::string stream(
      const std::string& path,
      const nlohmann::json& request,
      Deadline deadline,
      const std::function<bool(const nlohmann::json& message)>& on_message);

 private:
  const Endpoint& endpoint() const;
  std::string url(const std::string& path) const;
  std::string token(Deadline deadline);
  void drop_token(const std::string& used);
  [[noreturn]] void throw_unreachable(
      const std::string& failure, const Deadline& deadline) const;

  const std::vector<Endpoint> endpoints_;
  std::atomic<std::size_t> current_{0}; // modulo the number of endpoints
  const bool https_;
  const Login login_;
  EtcdHttp http_;
  std::mutex mutex_;
  std::string token_; // of the login; guarded by mutex_; empty: none yet
};

} // namespace argosy::store
