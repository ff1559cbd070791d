#pragma once

#include <optional>
#include <string>

#include "argosy/common/environment.h"
#include "argosy/store/secret.h"

namespace argosy::store {

// Certificate files (PEM) for mutual TLS. Both sides of a connection show the
// certificate and verify that the other's was signed by `ca`.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string ca;

  // Whether connections between our processes use TLS.
  bool on() const { return !certificate.empty(); }

  bool operator==(const TlsFiles&) const = default;
};

// A user of etcd.
struct Login {
  std::string user; // empty: none
  std::string password;

  bool operator==(const Login&) const = default;
};

// How a process shows that it belongs to a job.
struct Credentials {
  std::optional<Secret> secret; // nullopt: whoever reaches the port may talk
  TlsFiles tls{};
  Login etcd{};

  bool operator==(const Credentials&) const = default;
};

// The secret in a file. Throws InvalidArgument, naming the file, when it cannot
// be read, holds no secret, or others may change it. Warns when others may read
// it.
Secret read_secret_file(const std::string& path);

// Reads ARGOSY_SECRET_FILE, else ARGOSY_SECRET; ARGOSY_TLS_CERT, _KEY and _CA;
// ARGOSY_ETCD_USER, and ARGOSY_ETCD_PASSWORD_FILE, else ARGOSY_ETCD_PASSWORD.
// Throws InvalidArgument, naming the variable.
Credentials credentials_of(const Environment& env);

// Throws InvalidArgument unless all three files are given, none, or `ca` alone,
// which is enough for etcd; `names` tells what gives them.
void check_tls_files(const TlsFiles& files, std::string_view names);

// Offers a secret to the processes of this user that run under this one: a file
// in memory, with no name in any folder, that ends with this object. They read
// it at path(), which ARGOSY_SECRET_FILE tells them, for as long as this
// process lives.
class OfferedSecret {
 public:
  // Throws SystemError.
  explicit OfferedSecret(const Secret& secret);
  ~OfferedSecret();
  OfferedSecret(OfferedSecret&& other) noexcept;
  OfferedSecret& operator=(OfferedSecret&&) = delete;

  // "/proc/<pid>/fd/<n>".
  std::string path() const;

  // The environment for such processes: where the secret is, and not what.
  void offer(Environment& env) const;

 private:
  int fd_ = -1;
};

} // namespace argosy::store
