#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace argosy {

// How a process ended, decoded from waitpid()'s status.
struct ProcessStatus {
  int exit_code = 0; // valid if signal is 0
  int signal = 0;    // the signal that killed it, or 0

  static ProcessStatus from_wait(int wait_status);

  bool success() const { return exit_code == 0 && signal == 0; }

  // The code that a shell reports: exit code or 128 + signal.
  int shell_code() const { return signal != 0 ? 128 + signal : exit_code; }

  // "exit code 1", "killed by signal 9 (SIGKILL)".
  std::string text() const;

  bool operator==(const ProcessStatus&) const = default;
};

// 9 -> "SIGKILL".
std::string signal_name(int signal);

// "SIGTERM", "TERM" or "15" -> 15; nothing for other text.
std::optional<int> parse_signal(std::string_view text);

} // namespace argosy
