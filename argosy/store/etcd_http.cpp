#include "argosy/store/etcd_http.h"

#include <curl/curl.h>

#include <mutex>
#include <vector>

#include "argosy/common/error.h"

namespace argosy::store {

namespace {

using Sink = std::function<bool(std::string_view)>; // returns false to stop

constexpr std::chrono::milliseconds kConnectTry(3000);

std::size_t write_body(char* data, std::size_t, std::size_t size, void* sink) {
  const bool more = (*static_cast<Sink*>(sink))({data, size});
  return more ? size : 0; // curl stops when fewer bytes are consumed
}

// curl_global_init() is not thread-safe in all versions of curl.
void start_curl() {
  static std::once_flag once;
  std::call_once(once, [] { ::curl_global_init(CURL_GLOBAL_DEFAULT); });
}

void set_limits(CURL* curl, const Deadline& deadline) {
  const long left =
      static_cast<long>(deadline.remaining(std::chrono::hours(24)).count());
  const long connect =
      static_cast<long>(deadline.remaining(kConnectTry).count());
  // Otherwise curl may use SIGALRM for time-outs, which is unsafe with threads.
  ::curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, left);
  ::curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, connect);
  ::curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  ::curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, 10L);
  ::curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, 5L);
}

// An empty "Expect:" header: otherwise curl waits a second before a large body.
struct Headers {
  Headers()
      : list(::curl_slist_append(
            ::curl_slist_append(nullptr, "Content-Type: application/json"),
            "Expect:")) {}
  ~Headers() { ::curl_slist_free_all(list); }
  curl_slist* list;
};

HttpResult perform(
    CURL* curl,
    const std::string& url,
    const std::string& body,
    const Deadline& deadline,
    Sink sink) {
  const Headers headers;
  std::string reason(CURL_ERROR_SIZE, '\0');
  set_limits(curl, deadline);
  // A proxy for the outside world, from http_proxy, does not reach etcd.
  ::curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  ::curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  ::curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.list);
  ::curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  ::curl_easy_setopt(
      curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  ::curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &write_body);
  ::curl_easy_setopt(curl, CURLOPT_WRITEDATA, &sink);
  ::curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason.data());
  const CURLcode code = ::curl_easy_perform(curl);
  HttpResult result;
  ::curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &result.status);
  // A sink that has seen enough makes curl report CURLE_WRITE_ERROR.
  if (code != CURLE_OK && code != CURLE_WRITE_ERROR) {
    result.failure =
        reason[0] != '\0' ? reason.c_str() : ::curl_easy_strerror(code);
  }
  // Keeps the connection, but clears pointers into this stack frame.
  ::curl_easy_reset(curl);
  return result;
}

} // namespace

// Each handle keeps its connection to etcd open between requests, and serves
// one request at a time.
class EtcdHttp::Handles {
 public:
  ~Handles() {
    for (CURL* curl : idle_) {
      ::curl_easy_cleanup(curl);
    }
  }

  CURL* take() {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      CURL* curl = idle_.back();
      idle_.pop_back();
      return curl;
    }
    CURL* curl = ::curl_easy_init();
    if (curl == nullptr) {
      throw SystemError("[store.etcd] curl_easy_init() failed");
    }
    return curl;
  }

  void give_back(CURL* curl) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(curl);
  }

 private:
  std::mutex mutex_;
  std::vector<CURL*> idle_; // guarded by mutex_
};

EtcdHttp::EtcdHttp() : handles_(std::make_unique<Handles>()) {
  start_curl();
}

EtcdHttp::~EtcdHttp() = default;

HttpResult EtcdHttp::post(
    const std::string& url, const std::string& body, Deadline deadline) {
  std::string answer;
  CURL* curl = handles_->take();
  HttpResult result =
      perform(curl, url, body, deadline, [&answer](std::string_view part) {
        answer += part;
        return true;
      });
  handles_->give_back(curl);
  result.body = std::move(answer);
  return result;
}

HttpResult EtcdHttp::post_stream(
    const std::string& url,
    const std::string& body,
    Deadline deadline,
    const std::function<bool(std::string_view line)>& on_line) {
  // Data arrives in any pieces; a message is complete with its line end.
  std::string pending;
  CURL* curl = handles_->take();
  HttpResult result =
      perform(curl, url, body, deadline, [&](std::string_view part) {
        pending += part;
        for (auto end = pending.find('\n'); end != std::string::npos;
             end = pending.find('\n')) {
          const std::string line = pending.substr(0, end);
          pending.erase(0, end + 1);
          if (!on_line(line)) {
            return false;
          }
        }
        return true;
      });
  handles_->give_back(curl);
  return result;
}

} // namespace argosy::store
