#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

namespace argosy::offload {

// How an OffloadTier reads and writes its file.
enum class OffloadIo {
  Auto,    // io_uring, or threads where the kernel refuses that
  Uring,   // io_uring
  Threads, // reads and writes that block, on threads of their own
  Mapped,  // the file is mapped into memory, and the kernel sees to it
};

struct OffloadOptions {
  std::string offload_path = "./offload"; // a folder, made if need be
  std::int64_t offload_cpu_size =
      0; // bytes that stay in memory, see OffloadTier
  std::int64_t offload_disk_size = std::numeric_limits<std::int64_t>::max();
  OffloadIo io = OffloadIo::Auto;
  bool direct = true;    // past the page cache, where the file system can
  bool checksum = false; // what is read is compared with what was written
  int ahead = 1; // steps whose buffers are read before they are asked for
  std::chrono::milliseconds timeout = std::chrono::minutes(5); // of each wait
};

struct OffloadStats {
  std::int64_t memory = 0; // bytes of buffers in memory now
  std::int64_t peak = 0;   // the most that were
  std::int64_t file = 0;   // size of the file
  std::int64_t read = 0;   // bytes so far
  std::int64_t written = 0;
  OffloadIo io = OffloadIo::Auto; // what Auto has become
  bool direct = false;
};

} // namespace argosy::offload
