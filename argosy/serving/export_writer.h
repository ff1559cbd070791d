#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "argosy/checkpoint/hash.h"
#include "argosy/common/deadline.h"
#include "argosy/fs/file_system.h"
#include "argosy/serving/export_file.h"

namespace argosy::serving {

// Writes an export, front to back: rows go to the file as they come, so memory
// holds the keys of one table. The file appears in commit(), and is on the disk
// then; without it nothing is left.
class ExportWriter {
 public:
  // Makes the folder if it is missing. Throws FsError, TimeoutError.
  ExportWriter(const std::string& folder, ExportInfo info, Deadline deadline);
  ~ExportWriter();

  // Begins a table; rows that follow are its.
  void begin_table(const std::string& name, std::int64_t dim);
  // Throws InvalidArgument for a row of another size; a key that comes twice is
  // found at the table's end.
  void add_row(std::uint64_t key, std::span<const float> row);
  void add_blob(const std::string& name, std::span<const std::byte> bytes);

  // Returns the hash of the export.
  std::string commit();

 private:
  void write(const void* bytes, std::size_t size);
  void align();
  void end_table();
  void write_slots(ExportTable& table);

  const Deadline deadline_;
  ExportDirectory directory_;
  std::unique_ptr<fs::Writer> file_;
  checkpoint::BytesHash hash_;
  std::uint64_t at_ = 0;
  std::vector<std::byte> buffer_;
  bool in_table_ = false;
  std::vector<std::uint64_t> keys_; // of the current table
};

} // namespace argosy::serving
