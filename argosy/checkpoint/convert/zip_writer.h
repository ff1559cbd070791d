#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "argosy/fs/file_system.h"

namespace argosy::checkpoint {

// Writes a zip file of stored entries, from front to back: also where nothing
// can be written twice. Contents begin at multiples of 64, as in torch's files.
class ZipWriter {
 public:
  // Appends to `out`, which the caller commits after finish().
  explicit ZipWriter(fs::Writer& out);

  // Begins an entry of so many bytes. All must be written before the next.
  void begin(const std::string& name, std::uint64_t bytes);
  void write(std::span<const std::byte> bytes);

  // A whole entry.
  void add(const std::string& name, std::string_view bytes);

  // Writes the directory.
  void finish();

  std::uint64_t bytes() const { return offset_; } // written until now

 private:
  struct Entry {
    std::string name;
    std::uint64_t header = 0;
    std::uint64_t bytes = 0;
    std::uint32_t crc = 0;
  };
  void end_entry();
  void put(std::string_view bytes);
  static void append_directory_entry(std::string& out, const Entry& entry);

  fs::Writer& out_;
  std::uint64_t offset_ = 0;
  std::uint64_t left_ = 0; // of the open entry
  bool open_ = false;
  std::vector<Entry> entries_;
};

} // namespace argosy::checkpoint
