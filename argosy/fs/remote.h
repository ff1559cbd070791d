#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "argosy/common/backoff.h"
#include "argosy/common/environment.h"
#include "argosy/common/http.h"
#include "argosy/fs/error.h"

// What file systems behind HTTP servers share: asking again, reading ranges,
// errors.
namespace argosy::fs {

// What is being done to what, for messages.
struct Task {
  std::string_view op; // "open_read"
  std::string url;     // as users write it
};

// An answer, and whether an earlier try may have been carried out too.
struct RemoteAnswer {
  HttpResult http;
  bool may_be_second = false;

  long status() const { return http.status; }
  bool is_ok() const { return http.status / 100 == 2; }
};

// A server that is asked until it answers. Thread-safe.
class Remote {
 public:
  // Says what an answer with status 4xx or 5xx means.
  using IsTransient = std::function<bool(const HttpResult&)>;
  using ServerText = std::function<std::string(const HttpResult&)>;

  // ARGOSY_FS_STALL is how long a server may be silent, ARGOSY_FS_CA the file
  // of certificates to trust where a request names none.
  Remote(
      const Environment& environment,
      IsTransient is_transient,
      ServerText server_text);

  // Returns the first answer that another try would not change. Throws
  // TimeoutError with the last failure, FsError once it is cancelled.
  RemoteAnswer ask(HttpRequest request, const Task& task, Deadline deadline);

  // Asks once.
  HttpResult try_once(HttpRequest request, Deadline deadline);

  // Whether another try would give the same.
  bool is_final(const HttpResult& result) const;

  // Throws the FsError for an answer.
  [[noreturn]] void refuse(const HttpResult& result, const Task& task) const;

  // Fills `into` from byte `offset` of a file. `request` asks for a range. A
  // short body is continued where it ended. `check` sees every answer.
  void read_range(
      std::uint64_t offset,
      std::span<std::byte> into,
      const std::function<HttpRequest(std::uint64_t from, std::uint64_t count)>&
          request,
      const std::function<void(const HttpResult&)>& check,
      const Task& task,
      Deadline deadline);

  // What to say of a result.
  std::string failure_text(const HttpResult& result) const;

 private:
  const std::chrono::seconds stall_limit_;
  const std::string certificates_;
  const IsTransient is_transient_;
  const ServerText server_text_;
  HttpClient http_;
};

// The tries of one task: pauses between them, and ends them at the deadline.
class Tries {
 public:
  Tries(const Remote& remote, const Task& task, Deadline deadline);

  // Throws TimeoutError if the deadline has passed.
  void begin() const;

  // Pauses before the next try. Throws FsError if there is no such host, or if
  // it is not the one that it should be.
  void failed(const HttpResult& result);

 private:
  const Remote& remote_;
  const Task& task_;
  const Deadline deadline_;
  const Deadline::Clock::time_point began_;
  Backoff backoff_;
  int num_failed_ = 0;
  bool told_ = false;
  std::string last_ = "none";
};

// "HTTP 503 Service Unavailable"-like statuses that pass.
bool is_passing_status(long status);

// What a request carries when a large file is written: ARGOSY_FS_PART, or
// `megabytes`.
std::uint64_t part_bytes(const Environment& environment, int megabytes);

// Bytes as text, for bodies.
std::string_view text_of(std::span<const std::byte> bytes);

} // namespace argosy::fs
