#include "argosy/common/process_status.h"

#include <string.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring> // sigabbrev_np()

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy {

ProcessStatus ProcessStatus::from_wait(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return {.signal = WTERMSIG(wait_status)};
  }
  return {.exit_code = WEXITSTATUS(wait_status)};
}

std::string ProcessStatus::text() const {
  if (signal != 0) {
    return str("killed by signal ", signal, " (", signal_name(signal), ")");
  }
  return str("exit code ", exit_code);
}

// sigabbrev_np() is thread-safe and does not depend on the locale, unlike
// strsignal().
std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? str("signal ", signal) : str("SIG", name);
}

std::optional<int> parse_signal(std::string_view text) {
  if (const auto number = parse_int(text)) {
    const bool known = *number > 0 && *number < NSIG;
    return known ? std::optional<int>(*number) : std::nullopt;
  }
  if (text.starts_with("SIG")) {
    text.remove_prefix(3);
  }
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* name = ::sigabbrev_np(signal);
    if (name != nullptr && text == name) {
      return signal;
    }
  }
  return std::nullopt;
}

} // namespace argosy
