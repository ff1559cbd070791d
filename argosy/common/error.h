#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace argosy {

// The root of everything that Argosy throws. docs/errors.md says what to do
// about each class.
//
// A message reads `[module.op] what happened, value, what was expected`, and
// ends with the rank that threw it when the thread belongs to a world.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

// The caller or the configuration is wrong. Never worth a retry.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

// A wait reached its deadline. The message names what was missing.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

// Another rank died or left. The group is of no more use; elastic training may
// form a new one.
class PeerLost : public Error {
 public:
  using Error::Error;
};

// A rendezvous store refused, or cannot be reached.
class StoreError : public Error {
 public:
  using Error::Error;
};

// A checkpoint cannot be written or read; the message has its path.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

// The operating system refused: files, sockets, processes.
class SystemError : public Error {
 public:
  using Error::Error;
};

// A rank that spawn() started failed.
class RankFailed : public Error {
 public:
  RankFailed(int rank, const std::string& message);

  int rank() const { return rank_; }

 private:
  int rank_;
};

// A bug in Argosy. Please report it.
class InternalError : public Error {
 public:
  using Error::Error;
};

// Joins the parts, each printed with operator<<, into one string.
template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  ((out << parts), ...);
  return out.str();
}

// "<what>: <text of errno>", read at the call.
std::string with_errno(std::string_view what);

namespace detail {
[[noreturn]] void throw_invalid_argument(const std::string& message);
[[noreturn]] void throw_internal_error(
    const char* file,
    int line,
    const char* condition,
    const std::string& message);
} // namespace detail

} // namespace argosy

// Throws InvalidArgument with the joined parts unless `condition` holds.
#define ARGOSY_CHECK(condition, ...)                                        \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ::argosy::detail::throw_invalid_argument(::argosy::str(__VA_ARGS__)); \
    }                                                                       \
  } while (false)

// Throws InternalError unless `condition` holds. On in every build.
#define ARGOSY_ASSERT(condition, ...)                                  \
  do {                                                                 \
    if (!(condition)) {                                                \
      ::argosy::detail::throw_internal_error(                          \
          __FILE__, __LINE__, #condition, ::argosy::str(__VA_ARGS__)); \
    }                                                                  \
  } while (false)
