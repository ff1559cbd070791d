#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

namespace argosy::offload {

// How an OffloadTier reads and writes its file.
enum class OffloadIo {
  Auto,    // io_uring, or threads if the kernel does not allow it
  Uring,   // io_uring
  Threads, // blocking reads and writes on threads of their own
  Mapped,  // the file is mapped into memory, and the kernel moves pages
};

struct OffloadOptions {
  // The folder for the file, created if it does not exist.
  std::string offload_path = "./offload";
  // Host-memory budget for unused buffers, in bytes; see OffloadTier.
  std::int64_t offload_cpu_size = 0;
  // Maximum size of the file, in bytes.
  std::int64_t offload_disk_size = std::numeric_limits<std::int64_t>::max();
  OffloadIo io = OffloadIo::Auto;
  bool direct = true;    // bypass the page cache if the file system allows it
  bool checksum = false; // verify what is read against what was written
  int ahead = 1;         // number of steps to prefetch
  std::chrono::milliseconds timeout = std::chrono::minutes(5); // of each wait
};

struct OffloadStats {
  std::int64_t memory = 0;        // bytes of buffers in memory now
  std::int64_t peak = 0;          // maximum of `memory` so far
  std::int64_t file = 0;          // size of the file in bytes
  std::int64_t read = 0;          // bytes read so far
  std::int64_t written = 0;       // bytes written so far
  OffloadIo io = OffloadIo::Auto; // the one in use
  bool direct = false;
};

} // namespace argosy::offload
