#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Tables for programs that serve a model: files that are mapped, not read.
// Torch-free.
//
//   00000001.base    all rows
//   00000002.delta   the rows that changed since 1
//
// An export is one file, which appears under its name when it is whole and is
// never changed. Behind its sections stands a directory in JSON, which says
// where they begin; behind that the hash of all bytes before.
namespace argosy::data {
class MappedFile;
}

namespace argosy::serving {

enum class ExportKind { Base, Delta };

// Exports of a job count from 1, whatever their kind.
struct ExportName {
  std::uint64_t number = 0;
  ExportKind kind = ExportKind::Base;

  bool is_base() const { return kind == ExportKind::Base; }
  bool operator==(const ExportName&) const = default;
};

std::string file_name(const ExportName& name); // "00000012.base"
// nullopt for other names.
std::optional<ExportName> parse_file_name(std::string_view name);

// What a writer says of an export.
struct ExportInfo {
  ExportName name{};
  std::string parent{}; // of a delta: the hash of the export before it
  std::string label{};  // for people: the day and pass of its rows

  bool operator==(const ExportInfo&) const = default;
};

// Where a table's sections begin: rows of `dim` floats, their keys, and a hash
// table of row numbers.
struct ExportTable {
  std::string name;
  std::uint64_t dim = 0;
  std::uint64_t num_rows = 0;
  std::uint64_t rows_at = 0;
  std::uint64_t keys_at = 0;
  std::uint64_t slots_at = 0;
  std::uint64_t num_slots = 0; // a power of two above num_rows

  bool operator==(const ExportTable&) const = default;
};

// Any bytes: the weights that are no table.
struct ExportBlob {
  std::string name;
  std::uint64_t at = 0;
  std::uint64_t num_bytes = 0;

  bool operator==(const ExportBlob&) const = default;
};

struct ExportDirectory {
  ExportInfo info{};
  std::vector<ExportTable> tables{};
  std::vector<ExportBlob> blobs{};

  bool operator==(const ExportDirectory&) const = default;
};

// A finished export, mapped. Immutable and thread-safe.
class ExportFile {
 public:
  // Throws CheckpointError, naming the file, if it is missing, cut off, damaged
  // or not what its name says. Unless `verify`, the hash is not computed, which
  // reads the whole file; the directory is checked always.
  explicit ExportFile(const std::filesystem::path& path, bool verify = true);
  ~ExportFile();

  const ExportInfo& info() const { return directory_.info; }
  const std::string& hash() const { return hash_; } // 32 digits
  const std::vector<ExportTable>& tables() const { return directory_.tables; }

  // Null if there is no such table.
  const ExportTable* table(std::string_view name) const;
  // The row of a key; null: none.
  const float* find(const ExportTable& table, std::uint64_t key) const;
  // What find() of the key will read: for lookups of many, first the slots of
  // all, then their rows.
  void prefetch_slot(const ExportTable& table, std::uint64_t key) const;
  void prefetch_row(const ExportTable& table, std::uint64_t key) const;
  // Rows by number.
  std::uint64_t key(const ExportTable& table, std::uint64_t row) const;
  const float* row(const ExportTable& table, std::uint64_t row) const;

  std::optional<std::span<const std::byte>> blob(std::string_view name) const;

 private:
  const std::uint32_t* slots(const ExportTable& table) const;
  void check_tables() const;
  [[noreturn]] void fail(const std::string& what) const;

  const std::unique_ptr<data::MappedFile> file_;
  const std::byte* bytes_ = nullptr;
  std::uint64_t sections_end_ = 0;
  ExportDirectory directory_;
  std::string hash_;
};

} // namespace argosy::serving
