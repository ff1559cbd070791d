#pragma once

#include <string>
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

template <typename... Parts>
void debug(const Parts&... parts) {
  if (level() <= Level::Debug) {
    write(Level::Debug, str(parts...));
  }
}

template <typename... Parts>
void info(const Parts&... parts) {
  if (level() <= Level::Info) {
    write(Level::Info, str(parts...));
  }
}

template <typename... Parts>
void warn(const Parts&... parts) {
  if (level() <= Level::Warn) {
    write(Level::Warn, str(parts...));
  }
}

template <typename... Parts>
void error(const Parts&... parts) {
  if (level() <= Level::Error) {
    write(Level::Error, str(parts...));
  }
}

} // namespace argosy::log
