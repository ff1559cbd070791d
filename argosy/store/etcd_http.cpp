#include "argosy/store/etcd_http.h"

namespace argosy::store {

namespace {

// Far above what etcd stores for a job; a foreign server may send anything.
constexpr std::size_t kLongestAnswer = 256u << 20;

} // namespace

// Without proxy: one for the outside world, from http_proxy, does not reach
// etcd.
HttpRequest EtcdHttp::request(
    const std::string& url,
    const std::string& body,
    const std::string& token) const {
  // An empty "Expect:" header: otherwise curl waits before a large body.
  HttpRequest request{
      .method = "POST",
      .url = url,
      .headers = {"Content-Type: application/json", "Expect:"},
      .body = body,
      .most_body = kLongestAnswer,
      .certificates = tls_.ca,
      .client_certificate = tls_.certificate,
      .client_key = tls_.key};
  if (!token.empty()) {
    request.headers.push_back("Authorization: " + token);
  }
  return request;
}

HttpResult EtcdHttp::post(
    const std::string& url,
    const std::string& body,
    const std::string& token,
    Deadline deadline) {
  return http_.send(request(url, body, token), deadline);
}

HttpResult EtcdHttp::post_stream(
    const std::string& url,
    const std::string& body,
    const std::string& token,
    Deadline deadline,
    const std::function<bool(std::string_view line)>& on_line) {
  // Data arrives in any pieces; a message is complete with its line end.
  std::string pending;
  HttpRequest streamed = request(url, body, token);
  streamed.on_body = [&](std::string_view piece) {
    pending += piece;
    if (pending.size() > kLongestAnswer) {
      return false;
    }
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
  return http_.send(streamed, deadline);
}

} // namespace argosy::store
