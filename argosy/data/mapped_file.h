#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace argosy::data {

// A read-only memory mapping of a file. Not copyable; share it by
// std::shared_ptr.
class MappedFile {
 public:
  // Throws SystemError, naming the file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& name() const { return name_; }
  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

} // namespace argosy::data
