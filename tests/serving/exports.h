#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/file.h"
#include "argosy/serving/export_writer.h"

namespace argosy::serving {

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

// Writes an export whose rows, of keys [0, num_keys) in tables `items` (dim 3)
// and `users` (dim 1), are all its number, as the blob `weights` is. Returns
// its hash.
inline std::string write_numbered(
    const std::filesystem::path& folder,
    const ExportName& name,
    const std::string& parent,
    std::uint64_t num_keys = 100) {
  ExportWriter writer(folder, {.name = name, .parent = parent}, soon());
  const auto number = static_cast<float>(name.number);
  for (const auto& [table, dim] : {std::pair("items", 3), {"users", 1}}) {
    writer.begin_table(table, dim);
    const std::vector<float> row(static_cast<std::size_t>(dim), number);
    for (std::uint64_t key = 0; key < num_keys; ++key) {
      writer.add_row(key, row);
    }
  }
  const std::string blob = std::to_string(name.number);
  writer.add_blob("weights", std::as_bytes(std::span(blob)));
  return writer.commit();
}

// Changes one byte.
inline void damage(const std::filesystem::path& path, std::int64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const auto byte = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
}

} // namespace argosy::serving
