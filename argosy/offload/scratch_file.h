#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace argosy::offload {

// A file without a name, for what does not fit into memory: it is gone when the
// process is, however that ends.
class ScratchFile {
 public:
  // Of memory, offsets and sizes, for reads and writes that go past the
  // kernel's page cache.
  static constexpr std::int64_t kAlignment = 4096;

  // In `folder`, which is made if need be. `is_direct`: past the page cache,
  // where the file system can. `limit`: bytes at most. Throws SystemError.
  ScratchFile(std::filesystem::path folder, bool is_direct, std::int64_t limit);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int fd() const { return fd_; }
  bool is_direct() const { return is_direct_; }
  std::int64_t size() const { return size_; }

  // The offset of `bytes` more, aligned, on which writes will not find the disk
  // full. Throws SystemError with the path, and what is free there.
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

// The next multiple of ScratchFile::kAlignment.
std::int64_t aligned(std::int64_t bytes);

} // namespace argosy::offload
