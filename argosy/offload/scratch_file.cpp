#include "argosy/offload/scratch_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy::offload {

namespace {

std::string free_text(const std::filesystem::path& folder) {
  struct statvfs found {};
  if (::statvfs(folder.c_str(), &found) != 0) {
    return "an unknown number of";
  }
  return str(found.f_bavail * found.f_frsize);
}

} // namespace

ScratchFile::ScratchFile(
    std::filesystem::path folder, bool is_direct, std::int64_t limit)
    : folder_(std::move(folder)), limit_(limit) {
  std::error_code ignored; // open() reports the error
  std::filesystem::create_directories(folder_, ignored);
  fd_ = open_nameless(folder_);
  if (fd_ < 0) {
    throw SystemError(failure("open", 0, errno));
  }
  is_direct_ =
      is_direct && ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_DIRECT) == 0;
}

ScratchFile::~ScratchFile() {
  ::close(fd_);
}

std::int64_t ScratchFile::reserve(std::int64_t bytes) {
  const std::int64_t more = aligned(bytes);
  if (size_ + more > limit_) {
    throw SystemError(str_format(
        "[offload.reserve] {} bytes more than {} in {}, expected at most {}",
        bytes,
        size_,
        folder_.string(),
        limit_));
  }
  // Reserve now: a full disk is then an error here, and not a SIGBUS when a
  // mapped page is written.
  int error = ::posix_fallocate(fd_, size_, more);
  // Some file systems cannot reserve; there the file only grows.
  if (error == EINVAL || error == EOPNOTSUPP) {
    error = ::ftruncate(fd_, size_ + more) == 0 ? 0 : errno;
  }
  if (error != 0) {
    throw SystemError(failure("reserve", bytes, error));
  }
  return std::exchange(size_, size_ + more);
}

std::string ScratchFile::failure(
    const std::string& op, std::int64_t bytes, int error) const {
  return str_format(
      "[offload.{}] {} bytes in {}, where {} bytes are free: {}",
      op,
      bytes,
      folder_.string(),
      free_text(folder_),
      std::strerror(error));
}

std::int64_t aligned(std::int64_t bytes) {
  constexpr std::int64_t kTo = ScratchFile::kAlignment;
  return (bytes + kTo - 1) / kTo * kTo;
}

} // namespace argosy::offload
