#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace argosy::data {

// A file in memory, read as pages are touched. Never copied; share it by a
// std::shared_ptr.
class MappedFile {
 public:
  // Throws SystemError that names the file.
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
