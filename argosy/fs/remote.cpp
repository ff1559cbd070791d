#include "argosy/fs/remote.h"

#include <algorithm>
#include <cstring>

#include "argosy/common/log.h"
#include "argosy/common/text.h"

namespace argosy::fs {

namespace {

constexpr double kDefaultStall = 60;
constexpr std::chrono::seconds kQuietTries(5);
// A name that does not resolve is more often wrong than late.
constexpr std::chrono::seconds kUnresolvedTries(10);
constexpr std::size_t kLongestServerText = 500;

Failure failure_of_status(long status) {
  switch (status) {
    case 404:
    case 410:
      return Failure::NotFound;
    case 401:
    case 403:
      return Failure::Denied;
    case 409:
      return Failure::Exists;
    case 412:
      return Failure::Broken;
    case 507:
      return Failure::NoSpace;
    default:
      return Failure::Other;
  }
}

std::string_view status_advice(long status) {
  switch (status) {
    case 401:
    case 403:
      return "; check the user or the credentials, and what they may do";
    case 404:
      return "; expected an existing path";
    case 507:
      return "; free some space on the server";
    default:
      return "";
  }
}

} // namespace

bool is_passing_status(long status) {
  return status == 408 || status == 429 || status == 500 || status == 502 ||
      status == 503 || status == 504;
}

std::uint64_t part_bytes(const Environment& environment, int megabytes) {
  const auto chosen = environment.find_int("ARGOSY_FS_PART", 1, 4096);
  return static_cast<std::uint64_t>(chosen.value_or(megabytes)) << 20;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Remote::Remote(
    const Environment& environment,
    IsTransient is_transient,
    ServerText server_text)
    : stall_limit_(static_cast<int>(std::max(
          1.0,
          environment.find_seconds("ARGOSY_FS_STALL")
              .value_or(kDefaultStall)))),
      certificates_(environment.get("ARGOSY_FS_CA", "")),
      is_transient_(std::move(is_transient)),
      server_text_(std::move(server_text)) {}

bool Remote::is_final(const HttpResult& result) const {
  return result.failure.empty() && !is_transient_(result);
}

std::string Remote::failure_text(const HttpResult& result) const {
  if (!result.failure.empty()) {
    return result.failure;
  }
  std::string text = server_text_(result);
  if (text.size() > kLongestServerText) {
    text.resize(kLongestServerText);
    text += "...";
  }
  return str("HTTP ", result.status, text.empty() ? "" : ": ", trim(text));
}

HttpResult Remote::try_once(HttpRequest request, Deadline deadline) {
  request.stall_limit = stall_limit_;
  if (request.certificates.empty()) {
    request.certificates = certificates_;
  }
  return http_.send(request, deadline);
}

RemoteAnswer Remote::ask(
    HttpRequest request, const Task& task, Deadline deadline) {
  Tries tries(*this, task, deadline);
  for (bool is_second = false;; is_second = true) {
    tries.begin();
    HttpResult result = try_once(request, deadline);
    if (is_final(result)) {
      return {std::move(result), is_second};
    }
    if (request.cancelled != nullptr && *request.cancelled) {
      refuse(result, task);
    }
    tries.failed(result);
  }
}

Tries::Tries(const Remote& remote, const Task& task, Deadline deadline)
    : remote_(remote),
      task_(task),
      deadline_(deadline),
      began_(Deadline::Clock::now()),
      backoff_(std::chrono::milliseconds(20), std::chrono::seconds(3)) {}

void Tries::begin() const {
  if (deadline_.expired()) {
    throw TimeoutError(
        str("[fs.",
            task_.op,
            "] ",
            task_.url,
            ": not done within ",
            deadline_.limit_text(),
            " and ",
            num_failed_,
            " tries; last failure: ",
            last_));
  }
}

void Tries::failed(const HttpResult& result) {
  ++num_failed_;
  last_ = remote_.failure_text(result);
  const auto elapsed = Deadline::Clock::now() - began_;
  if (result.is_unresolved && elapsed > kUnresolvedTries) {
    throw FsError(
        Failure::NotFound,
        str("[fs.",
            task_.op,
            "] ",
            task_.url,
            ": ",
            last_,
            "; check the host in the URL"));
  }
  if (result.is_untrusted) {
    throw FsError(
        Failure::Denied,
        str("[fs.",
            task_.op,
            "] ",
            task_.url,
            ": ",
            last_,
            "; check the host, or name the file of certificates to trust: "
            "ARGOSY_FS_CA, for S3 also AWS_CA_BUNDLE"));
  }
  if (!told_ && elapsed > kQuietTries) {
    log::warn(
        "[fs.{}] {}: trying again since {}: {}",
        task_.op,
        task_.url,
        duration_text(elapsed),
        last_);
    told_ = true;
  }
  backoff_.pause(deadline_);
}

void Remote::refuse(const HttpResult& result, const Task& task) const {
  throw FsError(
      failure_of_status(result.status),
      str("[fs.",
          task.op,
          "] ",
          task.url,
          ": ",
          failure_text(result),
          status_advice(result.status)));
}

void Remote::read_range(
    std::uint64_t offset,
    std::span<std::byte> into,
    const std::function<HttpRequest(std::uint64_t, std::uint64_t)>& request,
    const std::function<void(const HttpResult&)>& check,
    const Task& task,
    Deadline deadline) {
  Tries tries(*this, task, deadline);
  while (!into.empty()) {
    tries.begin();
    std::size_t filled = 0;
    HttpRequest range = request(offset, into.size());
    range.on_body = [&](std::string_view piece) {
      const std::size_t count = std::min(piece.size(), into.size() - filled);
      std::memcpy(into.data() + filled, piece.data(), count);
      filled += count;
      return count == piece.size(); // more than asked for: stop
    };
    HttpResult result = try_once(range, deadline);
    const bool is_ok = result.status / 100 == 2;
    if (is_ok || is_final(result)) {
      check(result);
      if (!is_ok) {
        refuse(result, task);
      }
    }
    into = into.subspan(filled);
    offset += filled;
    if (!into.empty()) {
      if (is_ok && result.failure.empty()) {
        result.failure = str("the body ended ", into.size(), " bytes early");
      }
      tries.failed(result);
    }
  }
}

} // namespace argosy::fs
