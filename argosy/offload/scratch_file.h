#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace argosy::offload {

// A file without a name, for data that does not fit into memory. The system
// removes it when the process ends, also after a crash.
class ScratchFile {
 public:
  // The alignment of memory, offsets and sizes that reads and writes need to
  // bypass the page cache.
  static constexpr std::int64_t kAlignment = 4096;

  // Creates the file in `folder`, which it creates if needed. `is_direct`:
  // bypass the page cache if the file system allows it. `limit`: maximum size
  // in bytes. Throws SystemError.
  ScratchFile(std::filesystem::path folder, bool is_direct, std::int64_t limit);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int fd() const { return fd_; }
  bool is_direct() const { return is_direct_; }
  std::int64_t size() const { return size_; }

  // Allocates `bytes` more on the disk and returns their aligned offset. Throws
  // SystemError with the path and the free space.
  std::int64_t reserve(std::int64_t bytes);

  // "[offload.write] 8 MB in /path, 3 MB free: No space left on device"
  std::string failure(
      const std::string& op, std::int64_t bytes, int error) const;

 private:
  const std::filesystem::path folder_;
  const std::int64_t limit_;
  bool is_direct_ = false;
  int fd_ = -1;
  std::int64_t size_ = 0;
};

// Rounds up to a multiple of ScratchFile::kAlignment.
std::int64_t aligned(std::int64_t bytes);

} // namespace argosy::offload
