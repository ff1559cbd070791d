#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "argosy/common/http.h"
#include "argosy/store/credentials.h"

namespace argosy::store {

// POSTs JSON to etcd. Thread-safe. Over https it trusts the authority of `tls`,
// or those of the system, and shows the certificate of `tls`, if it has one.
// `token` is that of an etcd user; empty: none.
class EtcdHttp {
 public:
  explicit EtcdHttp(TlsFiles tls = {}) : tls_(std::move(tls)) {}

  HttpResult post(
      const std::string& url,
      const std::string& body,
      const std::string& token,
      Deadline deadline);

  // Passes each line of the answer to `on_line` as it arrives, until that
  // returns false, the answer ends, or the deadline. The result's body is
  // empty, except that of an answer whose status is not 2xx.
  HttpResult post_stream(
      const std::string& url,
      const std::string& body,
      const std::string& token,
      Deadline deadline,
      const std::function<bool(std::string_view line)>& on_line);

 private:
  HttpRequest request(
      const std::string& url,
      const std::string& body,
      const std::string& token) const;

  const TlsFiles tls_;
  HttpClient http_;
};

} // namespace argosy::store
