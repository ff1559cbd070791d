#include "argosy/store/credentials.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"

namespace argosy::store {

namespace {

struct OwnedFd {
  int fd;
  ~OwnedFd() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
};

// Others could replace the secret by one that they know.
void check_mode(const std::string& path, const struct stat& status) {
  ARGOSY_CHECK(
      (status.st_mode & 022) == 0,
      "[store.secret] {} can be written by others, expected mode 0600",
      path);
  if ((status.st_mode & 004) != 0) {
    log::warn(
        "[store.secret] {} can be read by all users of this host, expected "
        "mode 0600",
        path);
  }
}

Login login_of(const Environment& env) {
  Login login{
      .user = env.get("ARGOSY_ETCD_USER", ""),
      .password = env.get("ARGOSY_ETCD_PASSWORD", "")};
  if (const auto path = env.find("ARGOSY_ETCD_PASSWORD_FILE")) {
    const auto text = read_file(*path);
    ARGOSY_CHECK(
        text,
        "[store.etcd] ARGOSY_ETCD_PASSWORD_FILE={} cannot be read",
        *path);
    login.password = trim(*text);
  }
  return login;
}

} // namespace

Secret read_secret_file(const std::string& path) {
  const std::string where = str("[store.secret] ", path);
  const OwnedFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  std::array<char, 1024> text{};
  ssize_t size = -1;
  if (file.fd >= 0 && ::fstat(file.fd, &status) == 0) {
    check_mode(path, status);
    size = ::read(file.fd, text.data(), text.size());
  }
  ARGOSY_CHECK(size >= 0, with_errno(str(where, " cannot be read")));
  return Secret::parse({text.data(), static_cast<std::size_t>(size)}, where);
}

Credentials credentials_of(const Environment& env) {
  Credentials credentials;
  if (const auto path = env.find("ARGOSY_SECRET_FILE")) {
    credentials.secret = read_secret_file(*path);
  } else if (const auto text = env.find("ARGOSY_SECRET")) {
    credentials.secret = Secret::parse(*text, "[store.secret] ARGOSY_SECRET");
  }
  credentials.tls = {
      .certificate = env.get("ARGOSY_TLS_CERT", ""),
      .key = env.get("ARGOSY_TLS_KEY", ""),
      .ca = env.get("ARGOSY_TLS_CA", "")};
  credentials.etcd = login_of(env);
  check_tls_files(
      credentials.tls, "ARGOSY_TLS_CERT, ARGOSY_TLS_KEY and ARGOSY_TLS_CA");
  return credentials;
}

void check_tls_files(const TlsFiles& files, std::string_view names) {
  const bool has_ca = !files.ca.empty();
  const bool certificate = !files.certificate.empty();
  ARGOSY_CHECK(
      certificate == !files.key.empty() && (has_ca || !certificate),
      "[store.tls] a certificate needs its key and an authority, expected all "
      "of {}",
      names);
}

OfferedSecret::OfferedSecret(const Secret& secret)
    : fd_(::memfd_create("argosy-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  const std::string text = secret.hex();
  const bool written = fd_ >= 0 && ::fchmod(fd_, 0400) == 0 &&
      ::write(fd_, text.data(), text.size()) ==
          static_cast<ssize_t>(text.size()) &&
      ::fcntl(fd_, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) ==
          0;
  if (!written) {
    const std::string message =
        with_errno("[store.secret] cannot offer a secret in memory");
    if (fd_ >= 0) {
      ::close(fd_);
    }
    throw SystemError(message);
  }
}

OfferedSecret::~OfferedSecret() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

OfferedSecret::OfferedSecret(OfferedSecret&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

// By the process's id and not "self": whoever reads it is another process.
std::string OfferedSecret::path() const {
  return str("/proc/", ::getpid(), "/fd/", fd_);
}

void OfferedSecret::offer(Environment& env) const {
  env.unset("ARGOSY_SECRET");
  env.set("ARGOSY_SECRET_FILE", path());
}

} // namespace argosy::store
