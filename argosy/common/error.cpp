#include "argosy/common/error.h"

#include <cerrno>
#include <cstring>

#include "argosy/common/rank_label.h"

namespace argosy {

namespace {

// Errors of several ranks often end up in one log.
std::string with_rank(const std::string& message) {
  const std::string label = rank_label();
  return label.empty() ? message : str(message, "; rank ", label);
}

} // namespace

Error::Error(const std::string& message)
    : std::runtime_error(with_rank(message)) {}

RankFailed::RankFailed(int rank, const std::string& message)
    : Error(message), rank_(rank) {}

std::string with_errno(std::string_view what) {
  // First, since building the text may change errno.
  const int code = errno;
  return str(what, ": ", std::strerror(code));
}

namespace detail {

std::string_view write_to_placeholder(
    std::ostream& out, std::string_view text) {
  constexpr std::string_view kPlaceholder = "{}";
  const std::size_t at = text.find(kPlaceholder);
  out << text.substr(0, at);
  return at == std::string_view::npos ? ""
                                      : text.substr(at + kPlaceholder.size());
}

void throw_invalid_argument(const std::string& message) {
  throw InvalidArgument(message);
}

void throw_internal_error(
    const char* file,
    int line,
    const char* condition,
    const std::string& message) {
  throw InternalError(str_format(
      "[internal] {} is false at {}:{}{}",
      condition,
      file,
      line,
      message.empty() ? "" : ": " + message));
}

} // namespace detail

} // namespace argosy
