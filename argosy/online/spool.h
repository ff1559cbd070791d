#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>

namespace argosy::online {

struct SpoolOptions {
  std::filesystem::path folder; // made if missing
  // A file ends at so many lines or bytes, or at this age of its first line.
  std::int64_t max_lines = 100000;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::chrono::milliseconds max_age = std::chrono::minutes(1);
  // How long nothing may come; 0: any time.
  std::chrono::milliseconds idle_limit = std::chrono::milliseconds(0);
};

// Turns what comes through a pipe (or a socket) into a folder that grows, which
// can be read again after a failure: files 000000000001.txt, ... of whole
// lines, each renamed into place when it is complete. Goes on behind the files
// that are there. Returns the number of lines at the end of the pipe; what
// follows the last line end is a line too. Throws SystemError, and TimeoutError
// at the idle limit.
std::int64_t spool_lines(int descriptor, const SpoolOptions& options);

} // namespace argosy::online
