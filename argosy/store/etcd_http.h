#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "argosy/common/deadline.h"

namespace argosy::store {

// The result of a request. Failures are values, because the caller retries.
struct HttpResult {
  std::string failure; // empty if an answer came
  long status = 0;
  std::string body;
};

// POSTs JSON over HTTP, ignoring proxies. Keeps connections open for reuse.
// Thread-safe; concurrent calls use separate connections.
class EtcdHttp {
 public:
  EtcdHttp();
  ~EtcdHttp();

  HttpResult post(
      const std::string& url, const std::string& body, Deadline deadline);

  // Passes each line of the answer to `on_line` as it arrives, until that
  // returns false, the answer ends, or the deadline. The result's body is
  // empty.
  HttpResult post_stream(
      const std::string& url,
      const std::string& body,
      Deadline deadline,
      const std::function<bool(std::string_view line)>& on_line);

 private:
  class Handles;
  std::unique_ptr<Handles> handles_;
};

} // namespace argosy::store
