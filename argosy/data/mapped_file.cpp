#include "argosy/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "argosy/common/error.h"

namespace argosy::data {

MappedFile::MappedFile(const std::filesystem::path& path)
    : name_(path.string()) {
  const int file = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  struct ::stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) {
    const std::string message = with_errno(str("[data.map] ", name_));
    ::close(file);
    throw SystemError(message);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* memory = nullptr;
  if (size > 0) { // an empty file cannot be mapped
    memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  }
  const std::string message = with_errno(str("[data.map] ", name_));
  ::close(file); // the mapping stays valid
  if (memory == MAP_FAILED) {
    throw SystemError(message);
  }
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

} // namespace argosy::data
