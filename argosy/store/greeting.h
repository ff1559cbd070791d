#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "argosy/store/credentials.h"

// The first bytes of a connection, by which both sides show that they know the
// job's secret. Pure: no sockets, no clocks.
//
//   client -> server   kHello, mode, client's nonce
//   server -> client   kHello, mode, server's nonce, instance, server's proof
//   client -> server   client's proof, followed by its first request
//
// A nonce is 32 fresh random bytes. The mode is 's' for a side with a secret
// and 'o' (open) for one without, which uses a key that everybody knows. The
// instance changes with a restart of the server. A proof is an HMAC-SHA256 over
// who proves it, kHello (which holds the protocol's version), both modes, both
// nonces, the instance and, under TLS, a value that is unique to the TLS
// session. So a proof is worth nothing on another connection (replay), for the
// other side (reflection), or through somebody in the middle of a TLS session.
//
// kHello ends like a request of a line-based protocol, so that a foreign server
// answers it or closes the connection instead of waiting for more.
namespace argosy::store {

inline constexpr std::string_view kHelloName = "ARGOSY KV ";
inline constexpr std::string_view kHello = "ARGOSY KV 0002\r\n\r\n";
inline constexpr std::size_t kInstanceBytes = 8;
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 32;

inline constexpr std::size_t kOpeningBytes = kHello.size() + 1 + kNonceBytes;
inline constexpr std::size_t kAnswerBytes =
    kHello.size() + 1 + kNonceBytes + kInstanceBytes + kProofBytes;

// What went wrong in a greeting.
enum class Distrust {
  Foreign,  // another protocol, or another version of this one
  NoSecret, // the client has no secret, but the server has one
  Proof     // the client does not know the secret
};

std::string_view to_string(Distrust reason);

class ServerGreeting {
 public:
  enum class State { Opening, Proof, Proven, Failed };

  ServerGreeting(const Credentials& credentials, std::string instance);

  // Takes the client's bytes from the front of `in` as far as they belong to
  // the greeting, and appends ours to `out`. `binding` identifies the TLS
  // session; empty without TLS. Returns the new state; after Proven, `in` holds
  // what follows the greeting.
  State advance(std::string& in, std::string& out, std::string_view binding);

  State state() const { return state_; }
  Distrust distrust() const { return distrust_; } // if state() is Failed

 private:
  State fail(Distrust reason);
  State open(std::string& in, std::string& out, std::string_view binding);

  const Secret key_;
  const char mode_;
  const std::string instance_;
  const std::string nonce_;
  State state_ = State::Opening;
  Distrust distrust_ = Distrust::Foreign;
  std::string expected_proof_;
};

class ClientGreeting {
 public:
  explicit ClientGreeting(const Credentials& credentials);

  // What the client sends first; kOpeningBytes.
  std::string opening() const;

  struct Accepted {
    std::string proof; // what the client sends next
    std::string instance;
  };

  // Checks the kAnswerBytes of a server that begin with kHello. Throws
  // StoreError that names `server`, when it does not know our secret or wants
  // one that we do not have.
  Accepted accept(
      std::string_view answer,
      std::string_view server,
      std::string_view binding) const;

 private:
  const Secret key_;
  const char mode_;
  const std::string nonce_;
};

} // namespace argosy::store
