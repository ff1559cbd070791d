#include "argosy/store/etcd_http.h"

namespace argosy::store {

namespace {

// Without proxy: one for the outside world, from http_proxy, does not reach
// etcd.
HttpRequest json_request(const std::string& url, const std::string& body) {
  // An empty "Expect:" header: otherwise curl waits before a large body.
  return {
      .method = "POST",
      .url = url,
      .headers = {"Content-Type: application/json", "Expect:"},
      .body = body};
}

} // namespace

HttpResult EtcdHttp::post(
    const std::string& url, const std::string& body, Deadline deadline) {
  return http_.send(json_request(url, body), deadline);
}

HttpResult EtcdHttp::post_stream(
    const std::string& url,
    const std::string& body,
    Deadline deadline,
    const std::function<bool(std::string_view line)>& on_line) {
  // Data arrives in any pieces; a message is complete with its line end.
  std::string pending;
  HttpRequest request = json_request(url, body);
  request.on_body = [&](std::string_view piece) {
    pending += piece;
    for (auto end = pending.find('\n'); end != std::string::npos;
         end = pending.find('\n')) {
      const std::string line = pending.substr(0, end);
      pending.erase(0, end + 1);
      if (!on_line(line)) {
        return false;
      }
    }
    return true;
  };
  return http_.send(request, deadline);
}

} // namespace argosy::store
