#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "argosy/common/deadline.h"

namespace argosy::store {

// What became of a request. Failures are values, because the caller retries.
struct HttpResult {
  std::string failure; // empty: an answer came; else why none did
  long status = 0;
  std::string body;
};

// POSTs JSON over HTTP, past all proxies. Keeps connections open for later
// calls. Thread-safe; a call uses a connection of its own.
class EtcdHttp {
 public:
  EtcdHttp();
  ~EtcdHttp();

  HttpResult post(
      const std::string& url, const std::string& body, Deadline deadline);

  // Hands each line of the answer to `on_line` as it comes, until that returns
  // false, the answer ends, or the deadline. The result's body is empty.
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
