#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>

#include "argosy/common/error.h"

namespace argosy::rpc {

// Why a call failed.
enum class Failure {
  Timeout,   // its deadline passed; the callee may still be at it
  PeerLost,  // the connection broke or the peer died; it may have run or not
  Refused,   // it did not run: unknown function, limits, a peer that shuts down
  Remote,    // the function threw at the callee: see RemoteError
  Cancelled, // by Future::cancel()
};

std::string_view to_string(Failure failure);

// A call failed. The message names the peer, the function and the cause.
class RpcError : public Error {
 public:
  RpcError(Failure failure, std::string peer, const std::string& message)
      : Error(message), failure_(failure), peer_(std::move(peer)) {}

  Failure failure() const { return failure_; }
  const std::string& peer() const { return peer_; } // its name

 private:
  Failure failure_;
  std::string peer_;
};

// The called function threw. Its exception's type and text.
class RemoteError : public RpcError {
 public:
  RemoteError(
      std::string peer,
      std::string type,
      std::string text,
      const std::string& message)
      : RpcError(Failure::Remote, std::move(peer), message),
        type_(std::move(type)),
        text_(std::move(text)) {}

  const std::string& type() const { return type_; } // "std::out_of_range"
  const std::string& text() const { return text_; } // what()

 private:
  std::string type_;
  std::string text_;
};

// An exception as it travels.
struct ExceptionText {
  std::string type; // "std::out_of_range"; "unknown" for what is no std one
  std::string text; // what()

  bool operator==(const ExceptionText&) const = default;
};

// The name of a type as one writes it.
std::string demangled(const std::type_info& type);

ExceptionText describe(const std::exception_ptr& exception);

} // namespace argosy::rpc
