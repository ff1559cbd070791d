#include "argosy/recomputation/activation_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <mutex>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/heap/free_space.h"

namespace argosy {

namespace {

// Larger than any disk. The file is only as long as the space in use.
constexpr std::size_t kSpace = std::size_t{1} << 46;
constexpr std::size_t kPage = 4096;

std::size_t in_pages(std::size_t bytes) {
  return std::max(bytes + kPage - 1, kPage) / kPage * kPage;
}

int open_in(const std::filesystem::path& folder) {
  const int file = open_nameless(folder);
  if (file < 0) {
    throw SystemError(with_errno(
        str("[recomputation.activation_store] cannot create a file in ",
            folder.string())));
  }
  return file;
}

// Uses reads and writes instead of a mapping: a full disk is then an error of
// write() and does not kill the process. Because of the page cache, both make
// the same copies.
class FileActivationStore final : public ActivationStore {
 public:
  explicit FileActivationStore(const std::filesystem::path& folder)
      : file_(open_in(folder)) {}
  ~FileActivationStore() override { ::close(file_); }
  FileActivationStore(const FileActivationStore&) = delete;
  FileActivationStore& operator=(const FileActivationStore&) = delete;

  Ticket put(std::span<const std::byte> bytes) override {
    const Ticket ticket = take(bytes.size());
    try {
      move_all("write", bytes, ticket, [this](auto rest, off_t at) {
        return ::pwrite(file_, rest.data(), rest.size(), at);
      });
    } catch (...) {
      drop(ticket);
      throw;
    }
    return ticket;
  }

  void get(Ticket ticket, std::span<std::byte> bytes) override {
    move_all("read", bytes, ticket, [this](auto rest, off_t at) {
      return ::pread(file_, rest.data(), rest.size(), at);
    });
  }

  void drop(Ticket ticket) noexcept override {
    const std::lock_guard lock(mutex_);
    space_.give_back(ticket);
  }

 private:
  Ticket take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return space_.take(in_pages(bytes)).value();
  }

  template <typename Byte, typename Move>
  static void move_all(
      const char* what,
      std::span<Byte> bytes,
      std::size_t begin,
      const Move& move) {
    while (!bytes.empty()) {
      const ssize_t moved = move(bytes, static_cast<off_t>(begin));
      if (moved < 0 && errno == EINTR) {
        continue;
      }
      if (moved <= 0) {
        errno = moved < 0 ? errno : EIO;
        throw SystemError(with_errno(str_format(
            "[recomputation.activation_store] cannot {} {} bytes",
            what,
            bytes.size())));
      }
      begin += static_cast<std::size_t>(moved);
      bytes = bytes.subspan(static_cast<std::size_t>(moved));
    }
  }

  const int file_;
  std::mutex mutex_;
  heap::FreeSpace space_{kSpace}; // guarded by mutex_
};

} // namespace

std::shared_ptr<ActivationStore> open_file_activation_store(
    const std::filesystem::path& folder) {
  return std::make_shared<FileActivationStore>(
      folder.empty() ? std::filesystem::temp_directory_path() : folder);
}

} // namespace argosy
