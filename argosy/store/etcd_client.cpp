#include "argosy/store/etcd_client.h"

#include <nlohmann/json.hpp>

#include "argosy/common/backoff.h"
#include "argosy/common/text.h"
#include "argosy/store/error_text.h"
#include "argosy/store/resolve.h"

namespace argosy::store {

namespace {

using nlohmann::json;

// Limits one try, so that a hanging member leaves time for the others.
constexpr std::chrono::seconds kTry(10);

// HTTP status 500 and above means that etcd cannot serve now: it has no leader,
// is starting or stopping, or timed out internally.
std::string passing_failure(const HttpResult& result) {
  if (!result.failure.empty()) {
    return result.failure;
  }
  return result.status >= 500
      ? str("status ", result.status, " ", quoted_bytes(result.body))
      : "";
}

[[noreturn]] void throw_foreign(
    const std::string& url, const HttpResult& result) {
  throw StoreError(str_format(
      "[store.etcd] {} answered with status {} {}, expected etcd's v3 JSON "
      "gateway",
      url,
      result.status,
      quoted_bytes(result.body)));
}

json parse_answer(const std::string& url, const HttpResult& result) {
  json answer = json::parse(result.body, nullptr, false);
  if (answer.is_discarded() || !answer.is_object()) {
    throw_foreign(url, result);
  }
  if (result.status == 200) {
    if (!answer.contains("header") && !answer.contains("result")) {
      throw_foreign(url, result);
    }
    return answer;
  }
  const auto code = answer.find("code");
  const auto message = answer.find("message");
  if (code == answer.end() || message == answer.end() ||
      !code->is_number_integer() || !message->is_string()) {
    throw_foreign(url, result);
  }
  throw EtcdRefused(
      code->get<int>(),
      str("[store.etcd] ", url, " refused: ", message->get<std::string>()));
}

} // namespace

EtcdClient::EtcdClient(
    std::vector<Endpoint> endpoints, const EtcdAccess& access)
    : endpoints_(std::move(endpoints)),
      https_(access.https),
      login_(access.login),
      http_(access.tls) {
  ARGOSY_CHECK(
      !endpoints_.empty(), "[store.etcd] no endpoint, expected host:port");
}

const Endpoint& EtcdClient::endpoint() const {
  return endpoints_[current_.load() % endpoints_.size()];
}

std::string EtcdClient::url(const std::string& path) const {
  return str(https_ ? "https://" : "http://", endpoint().text(), "/v3/", path);
}

// etcd forgets a token after some minutes, and when it restarts.
std::string EtcdClient::token(Deadline deadline) {
  if (login_.user.empty()) {
    return "";
  }
  {
    const std::lock_guard lock(mutex_);
    if (!token_.empty()) {
      return token_;
    }
  }
  const json login = {{"name", login_.user}, {"password", login_.password}};
  const std::string target = url("auth/authenticate");
  const auto result =
      http_.post(target, login.dump(), "", deadline.earlier(kTry));
  if (!passing_failure(result).empty()) {
    return ""; // the request that needs it fails the same way, and is repeated
  }
  const json answer = parse_answer(target, result);
  const auto given = answer.find("token");
  if (given == answer.end() || !given->is_string()) {
    throw_foreign(target, result);
  }
  const std::lock_guard lock(mutex_);
  token_ = given->get<std::string>();
  return token_;
}

void EtcdClient::drop_token(const std::string& used) {
  const std::lock_guard lock(mutex_);
  if (token_ == used) {
    token_.clear();
  }
}

// call() repeats until its deadline, because members come back. A host name
// that does not exist should fail at once, hence this check.
void EtcdClient::resolve_any(Deadline deadline) const {
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    try {
      resolve(endpoints_[i], deadline);
      return;
    } catch (const StoreError&) {
      if (i + 1 == endpoints_.size()) {
        throw;
      }
    }
  }
}

json EtcdClient::call(
    const std::string& path, const json& request, Deadline deadline) {
  const std::string body = request.dump();
  std::string failure;
  for (Backoff backoff;; backoff.pause(deadline)) {
    // Out of time: another try would replace the real failure by a time-out.
    if (!failure.empty() && deadline.expired()) {
      throw_unreachable(failure, deadline);
    }
    const std::string target = url(path);
    const std::string pass = token(deadline);
    const auto result = http_.post(target, body, pass, deadline.earlier(kTry));
    failure = passing_failure(result);
    if (!failure.empty()) {
      // The next member. Concurrent calls may skip one, which does no harm.
      ++current_;
      continue;
    }
    try {
      return parse_answer(target, result);
    } catch (const EtcdRefused& error) {
      if (!error.unauthenticated() || pass.empty()) {
        throw;
      }
      failure = error.what();
      drop_token(pass);
    }
  }
}

std::string EtcdClient::stream(
    const std::string& path,
    const json& request,
    Deadline deadline,
    const std::function<bool(const json& message)>& on_message) {
  std::string failure;
  const auto on_line = [&](std::string_view line) {
    const json message = json::parse(line, nullptr, false);
    const auto content = message.find("result");
    if (content == message.end() || !content->is_object()) {
      failure = str("unexpected message ", quoted_bytes(line));
      return false;
    }
    return on_message(*content);
  };
  const auto result = http_.post_stream(
      url(path), request.dump(), token(deadline), deadline, on_line);
  if (failure.empty()) {
    failure = passing_failure(result);
  }
  if (!failure.empty()) {
    ++current_;
  }
  return failure;
}

void EtcdClient::throw_unreachable(
    const std::string& failure, const Deadline& deadline) const {
  std::vector<std::string> names;
  for (const Endpoint& each : endpoints_) {
    names.push_back(each.text());
  }
  throw EtcdUnreachable(str_format(
      "[store.etcd] no answer from etcd at {} within {}: {}",
      join(names, ","),
      deadline.limit_text(),
      failure));
}

} // namespace argosy::store
