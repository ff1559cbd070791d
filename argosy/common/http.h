#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/deadline.h"

namespace argosy {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers; // "Name: value"
  std::string_view body;            // must outlive the call

  // Signs the request for AWS (signature version 4) unless `region` is empty.
  struct Signing {
    std::string region;
    std::string service;
    std::string key_id;
    std::string secret;
  };
  Signing signing;

  // Gets the body of an answer with status 2xx in pieces as they arrive;
  // returns false to stop. If empty, the body goes into the result.
  std::function<bool(std::string_view piece)> on_body;

  // Ends a request, as failed, whose answer's body in the result would be
  // longer; 0: no limit.
  std::size_t most_body = 0;

  // Gives up on a server that sends and takes nothing for this long; 0: never.
  std::chrono::seconds stall_limit{0};

  // Ends the request, as failed, soon after another thread sets it.
  const std::atomic<bool>* cancelled = nullptr;

  bool use_proxy = false;   // as http_proxy, https_proxy and no_proxy say
  std::string certificates; // file of trusted ones; empty: the system's

  // Files that show the server who we are; empty: nothing does.
  std::string client_certificate;
  std::string client_key;
};

// Failures are values, because callers retry.
struct HttpResult {
  std::string failure;        // empty if a complete answer came
  bool is_unresolved = false; // the failure: no such host
  bool is_untrusted =
      false; // the failure: a certificate that nobody vouches for
  long status = 0;
  std::map<std::string, std::string> headers; // names in lower case
  std::string body;
};

// Sends HTTP requests by libcurl. Keeps connections open for reuse.
// Thread-safe; concurrent calls use separate connections. Follows no redirects.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();

  HttpResult send(const HttpRequest& request, const Deadline& deadline);

 private:
  class Handles;
  std::unique_ptr<Handles> handles_;
};

// Encodes all but letters, digits and "-._~" as %XX; keeps '/' if asked.
std::string percent_encode(std::string_view text, bool keep_slashes = false);

} // namespace argosy
