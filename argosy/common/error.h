#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace argosy {

// Base of all exceptions that Argosy throws. docs/errors.md explains what to do
// about each class.
//
// Messages read `[module.op] what happened, value, what was expected`. If the
// throwing thread belongs to a world, its rank is appended.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

// A caller's or configuration error. Do not retry.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

// A wait reached its deadline. The message names what was missing.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

// Another rank died or left. The group is unusable; elastic training may form a
// new one.
class PeerLost : public Error {
 public:
  using Error::Error;
};

// A rendezvous store failed or is unreachable.
class StoreError : public Error {
 public:
  using Error::Error;
};

// A checkpoint cannot be written or read; the message has its path.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

// An operating system call failed: files, sockets, processes.
class SystemError : public Error {
 public:
  using Error::Error;
};

// A rank started by spawn() failed.
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

// Concatenates the parts, printed with operator<<.
template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  ((out << parts), ...);
  return out.str();
}

namespace detail {
// Writes `text` up to its first `{}`; returns what follows it.
std::string_view write_to_placeholder(std::ostream& out, std::string_view text);
} // namespace detail

// Returns `text` with each `{}` replaced by the next value, printed with
// operator<<. Values for which `text` has no `{}` follow at the end.
template <typename... Values>
std::string str_format(std::string_view text = {}, const Values&... values) {
  std::ostringstream out;
  ((text = detail::write_to_placeholder(out, text), out << values), ...);
  out << text;
  return out.str();
}

// The same without a text: prints the values one after another.
template <typename Value, typename... Values>
requires(!std::is_convertible_v<const Value&, std::string_view>) std::string
    str_format(const Value& value, const Values&... values) {
  return str(value, values...);
}

// Returns "<what>: <message of the current errno>".
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

// Throws InvalidArgument unless `condition` holds. The message is a text with
// `{}` for each value, and the values: see str_format().
#define ARGOSY_CHECK(condition, ...)            \
  do {                                          \
    if (!(condition)) {                         \
      ::argosy::detail::throw_invalid_argument( \
          ::argosy::str_format(__VA_ARGS__));   \
    }                                           \
  } while (false)

// Throws InternalError unless `condition` holds, with a message as that of
// ARGOSY_CHECK, or none. Active in every build.
#define ARGOSY_ASSERT(condition, ...)                                         \
  do {                                                                        \
    if (!(condition)) {                                                       \
      ::argosy::detail::throw_internal_error(                                 \
          __FILE__, __LINE__, #condition, ::argosy::str_format(__VA_ARGS__)); \
    }                                                                         \
  } while (false)
