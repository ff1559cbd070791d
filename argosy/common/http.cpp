#include "argosy/common/http.h"

#include <curl/curl.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy {

namespace {

constexpr std::chrono::milliseconds kConnectTry(3000);
constexpr std::string_view kHexDigits = "0123456789abcdef";

// What a running request fills.
struct Transfer {
  CURL* curl = nullptr;
  const HttpRequest* request = nullptr;
  HttpResult result;
  bool stopped = false; // by on_body
  // curl takes an answer without a body for complete when the connection ends
  // between two headers.
  bool has_head = false;
  bool is_silent = false;
  bool is_too_long = false;
  Deadline::Clock::time_point moved = Deadline::Clock::now(); // last
  curl_off_t num_moved = 0; // bytes, both ways
};

std::size_t take_body(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  long status = 0;
  ::curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
  if (!transfer.request->on_body || status / 100 != 2) {
    const std::size_t most = transfer.request->most_body;
    transfer.is_too_long =
        most > 0 && transfer.result.body.size() + size > most;
    if (transfer.is_too_long) {
      return 0;
    }
    transfer.result.body.append(data, size);
    return size;
  }
  transfer.stopped = !transfer.request->on_body({data, size});
  return transfer.stopped ? 0 : size; // curl stops when fewer are consumed
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  auto& headers = transfer.result.headers;
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) {
    headers.clear(); // of a "100 Continue" before
    transfer.has_head = false;
  }
  // Trailers may follow the body, without another empty line.
  transfer.has_head = transfer.has_head || trim(line).empty();
  const std::size_t colon = line.find(':');
  if (colon != line.npos) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
      return static_cast<char>(std::tolower(c));
    });
    headers[name] = trim(line.substr(colon + 1));
  }
  return size;
}

// Called about once a second, and whenever something moves. Ends the request
// when it returns 1.
int watch(void* user, curl_off_t, curl_off_t down, curl_off_t, curl_off_t up) {
  auto& transfer = *static_cast<Transfer*>(user);
  const HttpRequest& request = *transfer.request;
  if (down + up != transfer.num_moved) {
    transfer.num_moved = down + up;
    transfer.moved = Deadline::Clock::now();
  }
  transfer.is_silent = request.stall_limit.count() > 0 &&
      Deadline::Clock::now() - transfer.moved > request.stall_limit;
  const bool is_cancelled = request.cancelled != nullptr && *request.cancelled;
  return transfer.is_silent || is_cancelled ? 1 : 0;
}

// curl_global_init() is not thread-safe in all versions of curl.
void start_curl() {
  static std::once_flag once;
  std::call_once(once, [] { ::curl_global_init(CURL_GLOBAL_DEFAULT); });
}

void set_limits(CURL* curl, const Deadline& limit) {
  const auto left = limit.remaining(std::chrono::hours(24));
  const auto connect = limit.remaining(kConnectTry);
  // Otherwise curl may use SIGALRM for time-outs, which is unsafe with threads.
  ::curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(left.count()));
  ::curl_easy_setopt(
      curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect.count()));
  ::curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  ::curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, 10L);
  ::curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, 5L);
}

void set_method(CURL* curl, const HttpRequest& request) {
  const std::string& method = request.method;
  if (method == "HEAD") {
    ::curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (method == "PUT" || method == "POST") {
    // As POST, because curl then knows all bytes and signs them too.
    ::curl_easy_setopt(
        curl,
        CURLOPT_POSTFIELDSIZE_LARGE,
        static_cast<curl_off_t>(request.body.size()));
    ::curl_easy_setopt(
        curl,
        CURLOPT_POSTFIELDS,
        request.body.empty() ? "" : request.body.data());
    ::curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method.c_str());
  } else if (method != "GET") {
    ::curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method.c_str());
  }
  // A server that does not know "Expect: 100-continue" costs no second. The
  // header itself stays: curl 7.88 would sign an empty one that removes it.
  ::curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
}

void set_signing(CURL* curl, const HttpRequest::Signing& signing) {
  if (signing.region.empty()) {
    return;
  }
  const std::string scope =
      str("aws:amz:", signing.region, ":", signing.service);
  ::curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, scope.c_str());
  ::curl_easy_setopt(curl, CURLOPT_USERNAME, signing.key_id.c_str());
  ::curl_easy_setopt(curl, CURLOPT_PASSWORD, signing.secret.c_str());
}

void set_connection(CURL* curl, const HttpRequest& request) {
  ::curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  ::curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); // names may be ".."
  if (!request.use_proxy) {
    ::curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  }
  if (!request.certificates.empty()) {
    ::curl_easy_setopt(curl, CURLOPT_CAINFO, request.certificates.c_str());
  }
  if (!request.client_certificate.empty()) {
    ::curl_easy_setopt(
        curl, CURLOPT_SSLCERT, request.client_certificate.c_str());
    ::curl_easy_setopt(curl, CURLOPT_SSLKEY, request.client_key.c_str());
  }
}

// S3 wants the hash of the body in a header; curl signs with it.
std::string content_hash_header(std::string_view body) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  if (::EVP_Digest(
          body.data(),
          body.size(),
          hash.data(),
          &size,
          EVP_sha256(),
          nullptr) != 1) {
    throw SystemError("[http.send] OpenSSL has no SHA-256");
  }
  std::string header = "x-amz-content-sha256: ";
  for (unsigned i = 0; i < size; ++i) {
    header += kHexDigits[hash[i] >> 4];
    header += kHexDigits[hash[i] & 15];
  }
  return header;
}

HttpResult perform(
    CURL* curl, const HttpRequest& request, const Deadline& deadline) {
  curl_slist* headers = nullptr;
  for (const std::string& header : request.headers) {
    headers = ::curl_slist_append(headers, header.c_str());
  }
  if (!request.signing.region.empty()) {
    headers =
        ::curl_slist_append(headers, content_hash_header(request.body).c_str());
  }
  Transfer transfer{.curl = curl, .request = &request};
  std::string reason(CURL_ERROR_SIZE, '\0');
  set_limits(curl, deadline);
  set_method(curl, request);
  set_signing(curl, request.signing);
  set_connection(curl, request);
  ::curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  ::curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take_body);
  ::curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  ::curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &take_header);
  ::curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  ::curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  ::curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &watch);
  ::curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  ::curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason.data());
  const CURLcode code = ::curl_easy_perform(curl);
  HttpResult& result = transfer.result;
  ::curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &result.status);
  if (code != CURLE_OK && !transfer.stopped) {
    result.is_unresolved = code == CURLE_COULDNT_RESOLVE_HOST;
    result.is_untrusted = code == CURLE_PEER_FAILED_VERIFICATION ||
        code == CURLE_SSL_CACERT_BADFILE;
    result.failure = transfer.is_too_long
        ? str("the answer is longer than ", request.most_body, " bytes")
        : transfer.is_silent
        ? str("no byte moved for ", duration_text(request.stall_limit))
        : reason[0] != '\0' ? reason.c_str()
                            : ::curl_easy_strerror(code);
  } else if (!transfer.has_head) {
    result.failure = "the answer ends between its headers";
  }
  // Keeps the connection, but clears pointers into this stack frame.
  ::curl_easy_reset(curl);
  ::curl_slist_free_all(headers);
  return std::move(result);
}

} // namespace

// Each handle keeps its connections open between requests, and serves one
// request at a time.
class HttpClient::Handles {
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
      throw SystemError("[http.send] curl_easy_init() failed");
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

HttpClient::HttpClient() : handles_(std::make_unique<Handles>()) {
  start_curl();
}

HttpClient::~HttpClient() = default;

HttpResult HttpClient::send(
    const HttpRequest& request, const Deadline& deadline) {
  CURL* curl = handles_->take();
  HttpResult result = perform(curl, request, deadline);
  handles_->give_back(curl);
  return result;
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    const bool is_plain = (code < 128 && std::isalnum(code) != 0) || c == '-' ||
        c == '.' || c == '_' || c == '~' || (keep_slashes && c == '/');
    if (is_plain) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kDigits[code >> 4];
      encoded += kDigits[code & 15];
    }
  }
  return encoded;
}

} // namespace argosy
