#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "argosy/common/http.h"

namespace argosy::store {

// POSTs JSON to etcd. Thread-safe.
class EtcdHttp {
 public:
  HttpResult post(
      const std::string& url, const std::string& body, Deadline deadline);

  // Passes each line of the answer to `on_line` as it arrives, until that
  // returns false, the answer ends, or the deadline. The result's body is
  // empty, except that of an answer whose status is not 2xx.
  HttpResult post_stream(
      const std::string& url,
      const std::string& body,
      Deadline deadline,
      const std::function<bool(std::string_view line)>& on_line);

 private:
  HttpClient http_;
};

} // namespace argosy::store
