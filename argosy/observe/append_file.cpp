#include "argosy/observe/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "argosy/common/error.h"
#include "argosy/launch/fd.h"

namespace argosy::observe {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored; // open() reports the error
  if (path_.has_parent_path()) {
    std::filesystem::create_directories(path_.parent_path(), ignored);
  }
  // O_APPEND: each write goes to the end, also when a restarted run continues
  // the file. Reading serves ends_within_line().
  fd_ = std::make_unique<launch::Fd>(
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!*fd_) {
    throw SystemError(with_errno(str("[observe.file] ", path_.string())));
  }
}

AppendFile::~AppendFile() = default;

void AppendFile::append(std::string_view record) {
  if (!launch::write_all(fd_->get(), record.data(), record.size())) {
    throw SystemError(with_errno(str("[observe.file] ", path_.string())));
  }
}

bool AppendFile::ends_within_line() const {
  const off_t size = ::lseek(fd_->get(), 0, SEEK_END);
  char last = '\n';
  return size > 0 && ::pread(fd_->get(), &last, 1, size - 1) == 1 &&
      last != '\n';
}

} // namespace argosy::observe
