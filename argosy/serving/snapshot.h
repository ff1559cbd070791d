#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/serving/export_file.h"

namespace argosy::serving {

// One version of a model: a base and the deltas behind it. Immutable and
// thread-safe; its files stay mapped as long as it lives.
class Snapshot {
 public:
  explicit Snapshot(std::shared_ptr<const ExportFile> base);

  // The version behind this one. Throws CheckpointError, naming the file, if
  // the delta does not follow this version.
  std::shared_ptr<const Snapshot> with(
      std::shared_ptr<const ExportFile> delta) const;

  const ExportInfo& info() const { return newest().info(); }
  std::uint64_t number() const { return info().name.number; }
  const std::string& hash() const { return newest().hash(); }

  // Copies a row for each key, zeros for keys that have none. Returns how many
  // have one. Throws InvalidArgument for a table that does not exist, and
  // unless there are dim() floats for each key.
  std::size_t lookup(
      std::string_view table,
      std::span<const std::uint64_t> keys,
      std::span<float> rows) const;
  // The row itself, valid as long as the snapshot; null: none.
  const float* find(std::string_view table, std::uint64_t key) const;

  std::int64_t dim(std::string_view table) const;
  std::vector<std::string> tables() const;

  // That of the newest export that has it.
  std::optional<std::span<const std::byte>> blob(std::string_view name) const;

 private:
  // Rows of deltas, by key: open addressing, at most half full.
  class Changed {
   public:
    std::size_t size() const { return size_; }
    void reserve(std::size_t rows);
    void set(std::uint64_t key, const float* row);
    const float* find(std::uint64_t key) const;
    void prefetch(std::uint64_t key) const;

   private:
    struct Slot {
      std::uint64_t key = 0;
      const float* row = nullptr; // null: free
    };
    Slot& slot_of(std::uint64_t key);

    std::vector<Slot> slots_;
    std::size_t size_ = 0;
  };

  struct Table {
    const ExportTable* in_base = nullptr; // null: a delta made it
    std::uint64_t dim = 0;
    Changed changed{};
  };

  void add(const ExportFile& delta);
  const ExportFile& newest() const { return *files_.back(); }
  const Table& table(std::string_view name) const;
  const float* find(const Table& table, std::uint64_t key) const;
  void prefetch(const Table& table, std::span<const std::uint64_t> keys) const;

  std::vector<std::shared_ptr<const ExportFile>> files_; // the base first
  std::map<std::string, Table, std::less<>> tables_;
};

} // namespace argosy::serving
