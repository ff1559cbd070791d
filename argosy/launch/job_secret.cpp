#include "argosy/launch/job_secret.h"

#include <poll.h>
#include <unistd.h>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/store/socket.h"

namespace argosy::launch {

namespace {

constexpr std::chrono::seconds kStoreLimit(10);
constexpr std::chrono::seconds kStdinLimit(60);

// Byte by byte: what follows the line is not ours to take.
std::string read_line_of_stdin() {
  constexpr std::size_t kLongest = 1024;
  const Deadline deadline = Deadline::after(kStdinLimit);
  std::string line;
  char byte = 0;
  while (line.size() < kLongest) {
    if (!store::await_ready(STDIN_FILENO, POLLIN, deadline)) {
      throw TimeoutError(str_format(
          "[launch.secret] --secret-stdin: no line within {}",
          deadline.limit_text()));
    }
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got == 0 || byte == '\n') {
      return line;
    }
    if (got == 1) {
      line += byte;
    }
  }
  return line;
}

} // namespace

store::Credentials given_credentials(
    const RunOptions& options, const Environment& environment) {
  Environment effective = environment;
  if (!options.secret_file.empty()) {
    effective.set("ARGOSY_SECRET_FILE", options.secret_file);
  } else if (options.secret_stdin) {
    effective.unset("ARGOSY_SECRET_FILE");
    effective.unset("ARGOSY_SECRET");
  }
  store::Credentials credentials = store::credentials_of(effective);
  if (!options.tls.ca.empty()) {
    credentials.tls = options.tls;
  }
  if (options.secret_stdin && options.secret_file.empty()) {
    credentials.secret = store::Secret::parse(
        read_line_of_stdin(), "[launch.secret] --secret-stdin");
  }
  return credentials;
}

store::Secret agree_on_secret(store::Kv& kv, const std::string& run_id) {
  const auto held = kv.compare_set(
      str("argosy/", run_id, "/secret"),
      std::nullopt,
      store::Secret::random().hex(),
      Deadline::after(kStoreLimit));
  return store::Secret::parse(
      held.value.value_or(""), "[launch.secret] the key of the rendezvous");
}

bool is_one_host(const RunOptions& options) {
  return options.rdzv.backend == RdzvBackend::Static &&
      options.max_nodes == 1 && options.servers.empty();
}

void pass_on(
    const store::Credentials& credentials,
    const store::OfferedSecret* offered,
    Environment& environment) {
  if (offered != nullptr) {
    offered->offer(environment);
  }
  if (!credentials.tls.ca.empty()) {
    environment.set("ARGOSY_TLS_CERT", credentials.tls.certificate);
    environment.set("ARGOSY_TLS_KEY", credentials.tls.key);
    environment.set("ARGOSY_TLS_CA", credentials.tls.ca);
  }
}

} // namespace argosy::launch
