#pragma once

#include <string_view>

#include "argosy/common/error.h"

// Log lines go to stderr as `[argosy 2/4 warning] text`, with the rank of the
// calling thread. ARGOSY_LOG sets the minimum level; it is read at the first
// line. Thread-safe.
namespace argosy::log {

enum class Level { Trace, Debug, Info, Warn, Error, Off };

// Throws InvalidArgument for an unknown name.
Level parse_level(std::string_view name);

Level level();
void set_level(Level level);

// Writes a line if `level` is enabled.
void write(Level level, std::string_view text);

// Each writes a line as str_format() forms it, if its level is enabled.
template <typename... Values>
void debug(std::string_view text, const Values&... values) {
  if (level() <= Level::Debug) {
    write(Level::Debug, str_format(text, values...));
  }
}

template <typename... Values>
void info(std::string_view text, const Values&... values) {
  if (level() <= Level::Info) {
    write(Level::Info, str_format(text, values...));
  }
}

template <typename... Values>
void warn(std::string_view text, const Values&... values) {
  if (level() <= Level::Warn) {
    write(Level::Warn, str_format(text, values...));
  }
}

template <typename... Values>
void error(std::string_view text, const Values&... values) {
  if (level() <= Level::Error) {
    write(Level::Error, str_format(text, values...));
  }
}

} // namespace argosy::log
