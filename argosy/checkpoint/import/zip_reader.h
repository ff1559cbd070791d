#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "argosy/checkpoint/import/byte_source.h"

namespace argosy::checkpoint {

struct ZipEntry {
  std::string name;
  std::uint64_t header = 0; // offset of its local header
  std::uint64_t packed = 0; // bytes in the file
  std::uint64_t bytes = 0;  // bytes unpacked
  std::uint32_t crc = 0;
  std::uint16_t method = 0; // 0 stored, 8 deflated
};

// A zip file's directory, with zip64's extensions.
class ZipReader {
 public:
  // Throws CheckpointError for what is no zip file, or a damaged one.
  explicit ZipReader(Source file);

  // Whether a file begins as zip files do.
  static bool is_zip(const ByteSource& file);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  // Null if there is none of that name.
  const ZipEntry* find(std::string_view name) const;

  // The bytes of an entry. A stored one is read from the file when asked for;
  // a deflated one is unpacked into a nameless temporary file first.
  Source open(const ZipEntry& entry) const;

  // The same, after its checksum was verified: for entries that are read whole
  // anyway.
  Source open_verified(const ZipEntry& entry) const;

 private:
  struct Directory {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
  };
  Directory find_directory() const;
  Directory find_directory64(std::uint64_t end) const;
  ZipEntry parse_entry(std::string_view& rest) const;
  Source unpack(const ZipEntry& entry, const Source& packed) const;
  [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const;

  Source file_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

} // namespace argosy::checkpoint
