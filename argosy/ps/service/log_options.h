#pragma once

#include <cstdint>
#include <string>

namespace argosy::ps {

// A file of every update, from which a server that was killed recovers.
struct LogOptions {
  std::string folder{}; // empty: no log
  bool sync = false;    // survives the machine's death, not only the process's
  std::uint64_t limit_bytes = 256u << 20; // a snapshot shortens the log then
};

} // namespace argosy::ps
