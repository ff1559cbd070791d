#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/store/etcd_http.h"

namespace argosy::store {

// etcd understood the request and refused it.
class EtcdRefused : public StoreError {
 public:
  EtcdRefused(int code, const std::string& message)
      : StoreError(message), code_(code) {}

  bool not_found() const { return code_ == 5; } // the code of gRPC

 private:
  int code_;
};

// No endpoint served the request by the deadline.
class EtcdUnreachable : public TimeoutError {
 public:
  using TimeoutError::TimeoutError;
};

// Requests to etcd's JSON gateway that outlast its restart. Thread-safe.
//
// A member that cannot be reached, or says that it cannot serve now, is asked
// again after a pause, or the next one is, until the deadline. So a request may
// be carried out more than once: its author must make that harmless.
class EtcdClient {
 public:
  // Connects to nothing yet.
  explicit EtcdClient(std::vector<Endpoint> endpoints);

  // Throws StoreError when not one of the hosts resolves: call() would go on
  // trying.
  void resolve_any(Deadline deadline) const;

  // POSTs to /v3/<path>. Throws EtcdRefused; StoreError when the answer is not
  // etcd's; EtcdUnreachable that names the endpoints and the last failure.
  nlohmann::json call(
      const std::string& path,
      const nlohmann::json& request,
      Deadline deadline);

  // Hands each message of a stream to `on_message` until that returns false, or
  // the stream ends for whatever reason. Makes one try; an empty result, or why
  // there was no stream.
  std::string stream(
      const std::string& path,
      const nlohmann::json& request,
      Deadline deadline,
      const std::function<bool(const nlohmann::json& message)>& on_message);

 private:
  const Endpoint& endpoint() const;
  std::string url(const std::string& path) const;
  [[noreturn]] void throw_unreachable(
      const std::string& failure, const Deadline& deadline) const;

  const std::vector<Endpoint> endpoints_;
  std::atomic<std::size_t> current_{0}; // modulo the number of endpoints
  EtcdHttp http_;
};

} // namespace argosy::store
